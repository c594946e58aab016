"""Memory of a process and all that belong to it."""

import os
import subprocess
import sys

import pytest

from simulators.scale.footprint import family, watched_memory

LARGE = 60_000_000
HOLDS = f"held = b'x' * {LARGE}; print('there', flush=True); input()"


@pytest.fixture
def begun():
    processes = []

    def begin(code, *words, **how):
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", code, *words]
        processes.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, **how))
        assert processes[-1].stdout.readline() == b"there\n"
        return processes[-1]

    yield begin
    for process in processes:
        process.communicate(b"\n")


def test_children_and_those_of_the_same_words_are_counted_and_no_other(begun):
    below = (
        "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', sys.argv[1]]);"
        "input(); child.wait()"
    )
    parent = begun(below, HOLDS)
    marked, stranger = begun(HOLDS, "/ray/session_7/"), begun(HOLDS, "/ray/session_8/")
    ours = family(parent.pid, "/ray/session_7/")
    assert len(ours) == 3
    assert marked.pid in ours
    assert stranger.pid not in ours
    assert stranger.pid in family(os.getpid())
    with watched_memory(parent.pid, "/ray/session_7/") as most:
        pass
    assert most.processes == 3
    assert 2 * LARGE < most.bytes < 3 * LARGE
