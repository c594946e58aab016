"""What the daemon leaves for `edge-agent status` is whole or not there, and never stops it."""

import subprocess
import sys

from edge_agent.daemon import status
from edge_agent.daemon.status import Status, alive

SHOWN = Status("a", "f", "mqtt://b", 7, classes=("x", "y"), accuracy=(("head", 0.5),))


def test_what_was_written_is_read(tmp_path):
    status.write(tmp_path, SHOWN, "2026-03-01T12:00:00+00:00")
    document = status.read(tmp_path)
    assert (document["time"], document["pid"]) == ("2026-03-01T12:00:00+00:00", 7)
    assert (document["classes"], document["accuracy"]) == (["x", "y"], [["head", 0.5]])
    assert [path.name for path in tmp_path.iterdir()] == ["status.json"]


def test_what_cannot_be_read_is_nothing(tmp_path):
    assert status.read(tmp_path) == {}
    for text in ("", "[1, 2]", '{"time": '):
        (tmp_path / "status.json").write_text(text)
        assert status.read(tmp_path) == {}


def test_a_disk_that_takes_nothing_does_not_stop_the_daemon(tmp_path):
    status.write(tmp_path / "never made", SHOWN, "now")
    assert status.read(tmp_path / "never made") == {}


def test_a_process_that_has_ended_is_not_alive():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert alive(child.pid)
    child.communicate(b"\n")
    assert not alive(child.pid)
    assert not any(map(alive, (None, 0, -1, "7")))
