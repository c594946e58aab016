"""An owner's bounds on the training process: priority, memory, share of the time."""

import os

from tests.children import run

PRELUDE = """
import os, resource, signal, sys, time
from edge_agent.config import LimitsSection
from edge_agent.worker.limits import confine, pace
"""


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
    assert run(PRELUDE + code).split() == [str(min(3, 19 - os.nice(0))), "10", "refused"]


def test_without_a_bound_nothing_is_limited():
    code = """
before = resource.getrlimit(resource.RLIMIT_DATA)
confine(LimitsSection(nice=0))
pace(1.0, 4)
print(resource.getrlimit(resource.RLIMIT_DATA) == before, signal.getitimer(signal.ITIMER_PROF))
"""
    assert run(PRELUDE + code) == "True (0.0, 0.0)\n"


def test_a_share_of_the_time_is_not_exceeded():
    # Only the upper bound: other processes may take what they like of the rest.
    code = """
pace(0.25, 1)
began, used = time.monotonic(), time.process_time()
while time.monotonic() - began < 2.0:
    sum(range(1000))
print((time.process_time() - used) / (time.monotonic() - began))
"""
    assert float(run(PRELUDE + code)) < 0.35


def test_a_process_that_computes_while_it_ends_ends_as_it_should():
    # What is torn down after the handlers of signals are gone: longer than the timer's slice.
    code = """
class Late:
    def __del__(self):
        began = clock()
        while clock() - began < 0.3:
            pass
clock = time.process_time
pace(0.9, 1)
sys.late = Late()
print("done")
"""
    assert run(PRELUDE + code) == "done\n"
