"""A page that dies is started again, and ends with its service."""

import io
import os
import signal
import sys
from pathlib import Path

from protofleet.pages.child import FIRST, LONG, LONGEST, Child, pause_after
from protofleet.util.logs import Log
from tests.linking import eventually

SLEEP = "import sys; sys.stdin.read()"


def test_pauses_grow_for_what_dies_at_once():
    assert pause_after(LONG, LONGEST) == FIRST
    assert pause_after(0.0, FIRST) == 2 * FIRST
    assert pause_after(0.0, LONGEST) == LONGEST


def test_it_is_started_again_when_it_is_killed_and_ends_with_the_block(monkeypatch):
    monkeypatch.setenv("PROTOFLEET_MQTT_PASSWORD", "secret")
    stream = io.StringIO()
    with Child([sys.executable, "-c", SLEEP], Log(stream)) as child:
        eventually(lambda: child.pid)
        first = child.pid
        environment = Path(f"/proc/{first}/environ")
        if environment.exists():
            eventually(environment.read_bytes)
            assert b"secret" not in environment.read_bytes()
        os.kill(first, signal.SIGKILL)
        eventually(lambda: child.pid not in (None, first))
    assert child.pid is None
    assert "killed by signal 9" in stream.getvalue()


def test_what_cannot_be_started_is_said():
    stream = io.StringIO()
    with Child(["/nowhere/at/all"], Log(stream)):
        eventually(lambda: "No such file" in stream.getvalue())
