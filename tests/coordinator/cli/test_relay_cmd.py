"""`coordinator relay` by hand: what is missing is one clear line."""

import pytest
from click.testing import CliRunner

from coordinator.cli import coordinator, live_cmd
from coordinator.config import load
from protofleet.errors import FleetError, UsageError


def says(*words):
    done = CliRunner().invoke(coordinator, ["relay", *words])
    assert isinstance(done.exception, FleetError), done.output
    return str(done.exception)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "which fleet is above is not said"),
        (["--up", "mqtt://127.0.0.1:1"], "this site has no name"),
        (["--up", "mqtt://127.0.0.1:1", "--name", "a b"], "site name 'a b' cannot be used"),
        (["--up", "http://x", "--name", "a", "--down", "mqtt://127.0.0.1:1"], "scheme 'http'"),
        (["--join", "nothing"], "a token is what `coordinator invite NAME` prints"),
    ],
)
def test_what_is_wrong_is_one_line(words, line):
    assert line in says(*words)


def test_a_sites_file_needs_no_contract_and_is_not_served_by_serve(tmp_path):
    file = tmp_path / "fleet.toml"
    file.write_text('[relay]\nurl = "mqtt://head"\nname = "north"\nca = "ca.pem"\n')
    settings = load(file, {}, {}, site=True)
    assert (settings.relay.url, settings.relay.ca) == ("mqtt://head", str(tmp_path / "ca.pem"))
    with pytest.raises(UsageError, match="is a site's"):
        load(file, {}, {})


def test_help_teaches_by_example():
    done = CliRunner().invoke(coordinator, ["relay", "--help"])
    assert "coordinator relay --up mqtt://head:1883 --down mqtt://127.0.0.1:1883" in done.output


def test_status_says_how_a_site_stands_with_the_fleet_above():
    about = {"up": "mqtt://head:1883", "site": "north", "connected": True, "taken": ["sums"]}
    about |= {"waiting": "counts", "trouble": "it does not say why", "run": "r"}
    line = live_cmd._site(about)["above"]
    assert line == (
        "mqtt://head:1883 as north, connected: has sums, counts on their way; it does not say why"
    )
    assert live_cmd._site(None) == {}
