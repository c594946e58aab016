import pytest
from click.testing import CliRunner

from edge_agent.cli import agent
from protofleet.errors import UsageError
from protofleet.member import membership
from protofleet.member.membership import FleetMember
from protofleet.trust import tokens
from protofleet.trust.tokens import Invitation

TOKEN = tokens.as_text(
    Invitation("orchard", "camera-07", False, bytes(32), bytes(32), "mqtt://b", "mqtt://b", 1)
)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("pf1.damaged",), "the token is damaged"),
        (("haFk",), "does not begin with pf1."),
        ((TOKEN, "--id", "camera-08"), "is for camera-07, not for camera-08"),
        ((TOKEN, "--data-dir", "member"), "joined orchard as camera-01; --force joins anew"),
    ],
)
def test_what_is_wrong_is_one_line_before_anybody_is_asked(words, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "member" / membership.FOLDER
    membership.write(FleetMember("orchard", "camera-01", "mqtt://b", folder))
    answer = CliRunner().invoke(agent, ["join", *words])
    assert isinstance(answer.exception, UsageError)
    assert line in str(answer.exception)
