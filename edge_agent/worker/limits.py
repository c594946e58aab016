"""What keeps a training process within its owner's bounds: priority, memory, share of the
processor.
"""

from __future__ import annotations

import atexit
import os
import resource
import signal
import time
from types import FrameType

from edge_agent.config import LimitsSection

_SLICE = 0.05  # seconds of computing between two pauses: short, so that others wait little


def confine(limits: LimitsSection) -> None:
    """Bounds on this process, set before anything large is loaded."""
    os.nice(limits.nice)
    if limits.memory_mb:
        # Data and not address space: libraries map far more than they ever touch.
        most = limits.memory_mb << 20
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def pace(share: float, threads: int) -> None:
    """Compute in this share of the time only: a timer that runs while these threads compute, and
    pauses after it.
    """
    if share >= 1:
        return
    # slice / (slice + pause) = share
    pause = _SLICE * (1 - share) / share

    # ITIMER_PROF counts the processor time of all threads together: a slice on each of them. The
    # handler sleeps in the main thread, and without that the others have nothing to do.
    def rest(signum: int, frame: FrameType | None) -> None:
        time.sleep(pause)

    signal.signal(signal.SIGPROF, rest)
    # Libraries that write files do not expect to be interrupted.
    signal.siginterrupt(signal.SIGPROF, False)
    # An interpreter that ends puts signals back to what they do by themselves, and this one kills.
    atexit.register(signal.setitimer, signal.ITIMER_PROF, 0.0)
    signal.setitimer(signal.ITIMER_PROF, _SLICE * threads, _SLICE * threads)
