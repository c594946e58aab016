"""`edge-agent run` hands the daemon the settings it was called with, and says in one line what is
wrong with them before anything is started.
"""

import pytest
from click.testing import CliRunner

from edge_agent.cli.run_cmd import run
from edge_agent.daemon import start
from protofleet.errors import FleetError


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
