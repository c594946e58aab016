"""What the device's owner allows right now: hours, free disk, and how many bytes a day may cross
the link.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path

from edge_agent.config import LimitsSection, is_open, parse_windows
from edge_agent.protocol.events import OwnerLimits

MEGABYTE = 1_000_000  # as on a data plan and in `df --si`, not 2**20


@dataclass(frozen=True)
class TrafficToday:
    """Payload bytes sent and received on a day."""

    day: date
    bytes: int = 0

    def add(self, count: int, today: date) -> TrafficToday:
        """So many more, on this day."""
        if today != self.day:
            return TrafficToday(today, count)
        return replace(self, bytes=self.bytes + count)


def allowed(limits: LimitsSection, folder: Path, spent: TrafficToday, now: datetime) -> OwnerLimits:
    """Whether the device may train and send at this (local) time; the first reason against it."""
    budget = limits.daily_mb * MEGABYTE
    used = spent.bytes if spent.day == now.date() else 0
    # The bytes go first: they alone forbid sending, and what is trained meanwhile could not be
    # delivered.
    if budget and used >= budget:
        words = f"bytes: the day's {limits.daily_mb:g} MB are used up"
        return OwnerLimits(words, may_send=False)
    if not is_open(parse_windows(limits.windows), now.time()):
        return OwnerLimits(f"window: it may train at {', '.join(limits.windows)} only")
    free = _free_mb(folder)
    if free is not None and free < limits.min_free_mb:
        words = f"disk: less than limits.min_free_mb = {limits.min_free_mb} MB are free"
        return OwnerLimits(words, disk_full=True)
    return OwnerLimits()


def _free_mb(folder: Path) -> int | None:
    """None where nobody can tell: a limit that cannot be measured forbids nothing."""
    try:
        return shutil.disk_usage(folder).free // MEGABYTE
    except OSError:
        return None
