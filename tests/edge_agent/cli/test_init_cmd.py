"""What `edge-agent init` writes is a file to begin with, and nothing is written over unasked."""

import pytest
from click.testing import CliRunner

from edge_agent.cli.init_cmd import init
from edge_agent.config import Config, as_toml, load
from protofleet.errors import UsageError


def wrote(*words, **environ):
    outcome = CliRunner(env=environ).invoke(init, words, standalone_mode=False)
    if outcome.exception is not None:
        raise outcome.exception
    return outcome.output


def test_what_is_named_stands_in_the_file_and_the_rest_is_default(tmp_path):
    path = tmp_path / "agent.toml"
    words = ("--id", "camera-07", "--fleet", "orchard", "--broker", "wss://b", "--data", "digits")
    assert "config check" in wrote(str(path), *words)
    config = load(path, {}, {})
    assert (config.agent.id, config.fleet.name) == ("camera-07", "orchard")
    assert (config.broker.url, config.data.source) == ("wss://b", "digits")
    assert config.limits == Config().limits


def test_empty_texts_leave_the_defaults_and_the_environment_stays_out(tmp_path):
    path = tmp_path / "agent.toml"
    wrote(str(path), "--fleet", "", "--broker", "", PROTOFLEET_FLEET_NAME="of this shell")
    assert path.read_text() == as_toml(Config())


def test_a_file_that_is_there_stays_unless_it_is_said(tmp_path):
    path = tmp_path / "agent.toml"
    path.write_text("mine")
    with pytest.raises(UsageError, match="is already there; --force writes over it"):
        wrote(str(path))
    assert path.read_text() == "mine"
    wrote(str(path), "--force")
    assert path.read_text() == as_toml(Config())


@pytest.mark.parametrize("words", [("--id", "camera 7"), ("--id", "-x"), ("--fleet", "a/b")])
def test_a_name_that_run_would_refuse_is_not_written(tmp_path, words):
    path = tmp_path / "agent.toml"
    with pytest.raises(UsageError, match="cannot be used"):
        wrote(str(path), *words)
    assert not path.exists()
