"""`edge-agent run` hands the daemon the settings it was called with, and says in one line what is
wrong with them before anything is started.
"""

import pytest
from click.testing import CliRunner

from edge_agent.cli.run_cmd import run
from edge_agent.daemon import start
from protofleet.errors import FleetError
from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.broker.run import running_broker


def called(*words):
    outcome = CliRunner().invoke(run, words, standalone_mode=False)
    if outcome.exception is not None:
        raise outcome.exception


def test_settings_and_patience_reach_the_daemon(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs = []
    monkeypatch.setattr(
        start, "run", lambda config, environ, *, retry: runs.append((config.id, retry))
    )
    called("--id", "camera-07")
    called("--id", "camera-08", "--retry")
    assert runs == [("camera-07", False), ("camera-08", True)]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "data.source is not set"),
        (("--data", "digits", "--id", "a/b"), "a/b"),
        (("--data", "digits", "--broker", "http://x"), "scheme 'http' is not known"),
        (("--data", "digits", "--credentials", "none"), "credentials file none cannot be read"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_there(tmp_path, monkeypatch, words, line):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FleetError, match=line):
        called(*words)
    assert list(tmp_path.iterdir()) == []


def test_where_the_rules_are_another_fleet_s_it_ends_with_one_line(call, tmp_path):
    """It would be denied everything for ever, and warn of it each time."""
    if mosquitto.find() is None:
        pytest.skip("mosquitto is not installed")
    with running_broker(tmp_path / "broker", users={"camera-07": "7"}, fleet="orchard") as broker:
        url = f"mqtt://camera-07:7@127.0.0.1:{broker.address.port}"
        words = ("--id", "camera-07", "--fleet", "other", "--data", "digits", "--broker", url)
        ended = call("run", *words)
    assert ended.returncode == 1
    assert "does not allow this device pf/1/other/d/camera-07/state" in ended.stderr
    places = [tmp_path / "agent-data", *(tmp_path / "agent-data").rglob("*")]
    assert len(places) > 3
    assert [path.name for path in places if path.stat().st_mode & 0o077] == []
