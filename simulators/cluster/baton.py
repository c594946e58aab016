"""Several runs in one process, in threads that take turns: whoever waits for the cluster lets
another go on.
"""

# Theory of operation
#
# What a run does itself (deal data out, fuse, draw pictures) was written for a process of one
# thread, and takes little of a run's time: the devices are elsewhere. So it stays in one thread's
# hands at a time. A thread holds the baton whenever it runs code of the laboratory, and lays it
# down (`away`) for nothing but waiting. Where one run fails, or somebody presses Ctrl-C, the others
# are told the next time they take it up again (`over`).

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from protofleet.errors import FleetError


class Stopped(FleetError):
    """Another run failed, and this one was begun beside it."""

    code = "stopped"


class Baton:
    """Held by the thread that makes it, until it lays it down."""

    def __init__(self) -> None:
        self._free = threading.Lock()
        self._free.acquire()
        self.over = False

    @contextmanager
    def away(self) -> Iterator[None]:
        """The others may go on meanwhile."""
        self._free.release()
        try:
            yield
        finally:
            self._free.acquire()

    @contextmanager
    def held(self) -> Iterator[None]:
        """In a thread that is to go on when it is its turn."""
        with self._free:
            self.go_on()
            yield

    def go_on(self) -> None:
        """Unless all is over."""
        if self.over:
            raise Stopped("another run beside this one failed")
