"""An owner's bounds on the training process: priority, memory, share of the time, parent."""

import os
import signal
import subprocess
import sys
import time

import pytest

PRELUDE = """
import os, resource, signal, sys, time
from edge_agent.config import LimitsSection
from edge_agent.worker.limits import confine, die_with_parent, pace
"""


def run(code):
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


def test_priority_and_memory_are_bounded_before_anything_is_loaded():
    code = """
before = os.nice(0)
confine(LimitsSection(nice=3, memory_mb=300))
print(min(os.nice(0) - before, 3), len(bytearray(10 << 20)) >> 20)
try:
    bytearray(400 << 20)
except MemoryError:
    print("refused")
"""
    assert run(code).stdout.split() == [str(min(3, 19 - os.nice(0))), "10", "refused"]


def test_without_a_bound_nothing_is_limited():
    code = """
before = resource.getrlimit(resource.RLIMIT_DATA)
confine(LimitsSection(nice=0))
pace(1.0, 4)
print(resource.getrlimit(resource.RLIMIT_DATA) == before, signal.getitimer(signal.ITIMER_PROF))
"""
    assert run(code).stdout == "True (0.0, 0.0)\n"


def test_a_share_of_the_time_is_not_exceeded():
    # Only the upper bound: other processes may take what they like of the rest.
    code = """
pace(0.25, 1)
began, used = time.monotonic(), time.process_time()
while time.monotonic() - began < 2.0:
    sum(range(1000))
print((time.process_time() - used) / (time.monotonic() - began))
"""
    assert float(run(code).stdout) < 0.35


def test_who_is_told_of_a_parent_that_is_gone_ends_at_once():
    stranger = os.getppid()
    assert run(f"die_with_parent({stranger})\nprint('alive')").stdout == ""
    assert run(f"die_with_parent({os.getpid()})\nprint('alive')").stdout == "alive\n"


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's signal is Linux's")
def test_a_killed_daemon_takes_its_training_process_along_and_signals_do_not():
    child = PRELUDE + "die_with_parent(int(sys.argv[1]))\nprint(os.getpid(), flush=True)\n"
    child += "time.sleep(60)"
    daemon = f"""
import os, subprocess, sys
subprocess.Popen([sys.executable, "-c", {child!r}, str(os.getpid())]).wait()
"""
    process = subprocess.Popen([sys.executable, "-c", daemon], stdout=subprocess.PIPE, text=True)
    try:
        pid = int(process.stdout.readline())
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGINT)
        time.sleep(0.1)
        assert running(pid)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    end = time.monotonic() + 10
    while running(pid):
        assert time.monotonic() < end
        time.sleep(0.01)


def running(pid):
    """Whether it computes: one that nobody has reaped yet has ended, too."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
