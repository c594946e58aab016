"""What keeps a training process within its owner's bounds: priority, memory, share of the processor, and its parent."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time
from types import FrameType

from edge_agent.config import LimitsSection

_PR_SET_PDEATHSIG = 1
_SLICE = 0.05  # seconds of computing between two pauses


def die_with_parent(parent: int) -> None:
    """End at once when the daemon does; an interrupt from a terminal is the daemon's to answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was gone before we asked
        sys.exit(0)


def confine(limits: LimitsSection) -> None:
    """Bounds on this process, set before anything large is loaded."""
    os.nice(limits.nice)
    if limits.memory_mb:
        # Data and not address space: libraries map far more than they ever touch.
        most = limits.memory_mb << 20
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    if limits.cpu < 1:
        _pause_every(_SLICE, _SLICE * (1 - limits.cpu) / limits.cpu)


def _pause_every(slice: float, pause: float) -> None:
    """A timer that runs only while this process computes: after each slice of it a pause."""

    def rest(signum: int, frame: FrameType | None) -> None:
        time.sleep(pause)

    signal.signal(signal.SIGPROF, rest)
    signal.setitimer(signal.ITIMER_PROF, slice, slice)
