"""SIGTERM and interrupts: a wish to end that is heard from the first moment on."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType


class StopRequest:
    """Whether the process was asked to end, and what to do about it."""

    def __init__(self) -> None:
        self.requested = False
        self._then: Callable[[], None] | None = None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def then(self, stop: Callable[[], None]) -> None:
        """What else to do when it comes, or at once if it came."""
        self._then = stop
        if self.requested:
            stop()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        if self._then is not None:
            self._then()
