"""A process and its children are watched from outside."""

import subprocess
import sys
import time

import pytest

from protofleet.errors import FleetError
from simulators.photos.cameras import Camera, descendants, until

PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "x = bytearray(60 << 20); input()"],
                         stdin=subprocess.PIPE)
print("up", flush=True)
time.sleep(60)
"""


def test_memory_is_that_of_the_largest_of_its_processes(tmp_path):
    camera = Camera("a", tmp_path, tmp_path, "mqtt://x")
    (tmp_path / "log").write_text("")
    camera.process = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE)
    try:
        camera.process.stdout.readline()
        (child,) = descendants(camera.process.pid)
        until(lambda: camera.look(libraries=True) or camera.watched.largest_mb > 60, "it", 10)
        assert camera.watched.daemon_mb < 50 < camera.watched.largest_mb
        assert camera.watched.together_mb > camera.watched.largest_mb
        assert not camera.watched.torch
        assert not camera.watched.cpu_contributed
        (tmp_path / "log").write_text("the ledger has it: own")
        camera.look(libraries=False)
        assert camera.watched.cpu_contributed == pytest.approx(camera.cpu, abs=0.1)
    finally:
        subprocess.run(["kill", str(child)], check=False)
        camera.process.kill()
        camera.process.wait()


def test_waiting_in_vain_says_for_what():
    began = time.monotonic()
    with pytest.raises(FleetError, match="in vain for rain"):
        until(lambda: None, "rain", 0.1)
    assert time.monotonic() - began < 5
