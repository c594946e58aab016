"""Memory that loading took is given back, in any thread."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# Two megabytes at a time: from the heap while there is room, pages of their own without.
CODE = """
import re, sys, threading
from protofleet.util.allocator import room_to_load

def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024

def load():
    with room_to_load():
        held = [bytearray(b"x") * (2 << 20) for _ in range(12)]
        found.append(resident())
        del held
    found.append(resident())

found = [resident()]
if sys.argv[1] == "aside":
    thread = threading.Thread(target=load)
    thread.start()
    thread.join()
else:
    load()
    load()
print(*found)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux tells what is resident")
@pytest.mark.parametrize("where", ["here", "aside"])
def test_what_loading_took_is_given_back(where):
    run = subprocess.run(
        [sys.executable, "-c", CODE, where], capture_output=True, text=True, check=True, cwd=ROOT
    )
    before, *found = map(float, run.stdout.split())
    for during, after in zip(found[::2], found[1::2], strict=True):
        assert during > before + 20
        assert after < before + 5


LARGE = """
import re
from protofleet.util.allocator import keep_no_large_block

def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024

def block(megabytes):
    return bytearray(b"x") * (megabytes << 20)

keep_no_large_block()
block(24)  # after one of these glibc would keep whatever is smaller
one, two = block(8), block(8)
before = resident()
del one
print(before, resident())
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux tells what is resident")
def test_a_large_block_goes_back_whatever_was_freed_before():
    run = subprocess.run(
        [sys.executable, "-c", LARGE], capture_output=True, text=True, check=True, cwd=ROOT
    )
    before, after = map(float, run.stdout.split())
    assert before - after > 7
