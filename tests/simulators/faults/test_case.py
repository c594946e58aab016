"""An attempt leaves no process behind, and a broker that was killed comes back where it was."""

import socket
import subprocess
import sys

import pytest

from simulators.faults.case import Attempt, Case, breakable_broker, upload_count
from simulators.faults.testbed import CaseProcess


def sleeper(folder):
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    return CaseProcess("sleeper", subprocess.Popen(command), folder / "log")


def test_a_seed_draws_the_same_at_every_call(tmp_path):
    attempt = Attempt(tmp_path, 4)
    assert attempt.rng().random() == attempt.rng().random()
    assert attempt.rng().random() != Attempt(tmp_path, 5).rng().random()


@pytest.mark.parametrize("fails", [False, True])
def test_every_process_is_dead_afterwards_however_it_ends(tmp_path, fails):
    def play(attempt):
        attempt.processes.append(sleeper(tmp_path))
        if fails:
            raise RuntimeError("a promise was broken")
        return "it slept"

    attempt = Attempt(tmp_path, 0)
    if fails:
        with pytest.raises(RuntimeError):
            Case("a nap", play).run(attempt)
    else:
        assert Case("a nap", play).run(attempt) == "it slept"
    assert [process.killed for process in attempt.processes] == [True]


def test_where_there_is_no_journal_yet_there_are_no_uploads(tmp_path):
    assert upload_count(tmp_path) == 0
    (tmp_path / "journal.db").touch()
    assert upload_count(tmp_path) == 0


def test_a_killed_broker_comes_back_on_the_same_port(tmp_path):
    with breakable_broker(Attempt(tmp_path, 0, "embedded")) as broker:
        where = ("127.0.0.1", broker.port)
        socket.create_connection(where, timeout=5).close()
        broker.kill()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(where, timeout=5)
        broker.back()
        socket.create_connection(where, timeout=5).close()
