"""No process of ours inherits what lets one in at the broker, or outlives who started it."""

import os
import signal
import subprocess
import sys
import time

import pytest

from protofleet.util.processes import without_secrets
from tests.children import run

PRELUDE = """
import os, sys, time
from protofleet.util.processes import die_with_parent
"""


def test_the_broker_s_secrets_stay_and_the_rest_goes_on():
    rest = {"PATH": "/bin", "PROTOFLEET_DATA": "/data", "OMP_NUM_THREADS": "1"}
    secret = {
        "PROTOFLEET_MQTT_USERNAME": "camera-07",
        "PROTOFLEET_MQTT_PASSWORD": "secret",
        "PROTOFLEET_BROKER_URL": "mqtts://camera-07:secret@b",
        "PROTOFLEET_BROKER_CREDENTIALS": "/run/secret",
        "CREDENTIALS_DIRECTORY": "/run/credentials",
    }
    assert without_secrets({**rest, **secret}) == rest


def test_who_is_told_of_a_parent_that_is_gone_ends_at_once():
    stranger = os.getppid()
    assert run(PRELUDE + f"die_with_parent({stranger})\nprint('alive')") == ""
    assert run(PRELUDE + f"die_with_parent({os.getpid()})\nprint('alive')") == "alive\n"


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
