"""What this device's newest samples look like beside its labelled ones, told to the coordinator:
two numbers, when they are new and when somebody else listens.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edge_agent.recent.window import read_report, report_file

EVERY = 60.0  # seconds between two reports: a window fills in minutes at best
LOOK = 1.0

Say = Callable[[dict[str, Any]], None]


class DriftNews:
    """Watches the file that `edge-agent infer` leaves beside a bundle."""

    def __init__(self, bundle: Path, clock: Callable[[], float]) -> None:
        self._bundle, self._clock = bundle, clock
        self._look_at, self._say_at = 0.0, 0.0
        self._stamp, self._news = 0, False

    def again(self) -> None:
        """Somebody listens who may not know it."""
        self._stamp, self._say_at = 0, 0.0

    def look(self, say: Say) -> None:
        """Say what is new, if it is time."""
        now = self._clock()
        if now < self._look_at:
            return
        self._look_at = now + LOOK
        stamp = 0
        with suppress(OSError):
            stamp = report_file(self._bundle).stat().st_mtime_ns
        self._news = self._news or stamp not in (0, self._stamp)
        self._stamp = stamp
        newest = read_report(self._bundle) if self._news and now >= self._say_at else None
        if newest is not None:
            self._news, self._say_at = False, now + EVERY
            say({"drift": {"lineage": newest[0], **asdict(newest[1])}})
