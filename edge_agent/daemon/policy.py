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


@dataclass(frozen=True)
class TrafficToday:
    """Payload bytes sent and received on a day."""

    day: date
    bytes: int = 0

    def add(self, count: int, today: date) -> TrafficToday:
        """So many more, on this day."""
        return (
            replace(self, bytes=self.bytes + count)
            if today == self.day
            else TrafficToday(today, count)
        )


def allowed(told: LimitsSection, folder: Path, spent: TrafficToday, now: datetime) -> OwnerLimits:
    """Whether the device may train and send at this (local) time; the first reason against it."""
    budget = told.daily_mb * 1e6
    used = spent.bytes if spent.day == now.date() else 0
    may_send = not budget or used < budget
    if not may_send:
        return OwnerLimits(f"bytes: the day's {told.daily_mb:g} MB are used up", may_send=False)
    if not is_open(parse_windows(told.windows), now.time()):
        return OwnerLimits(f"window: it may train at {', '.join(told.windows)} only")
    free = _free_mb(folder)
    if free is not None and free < told.min_free_mb:
        return OwnerLimits(f"disk: less than limits.min_free_mb = {told.min_free_mb} MB are free")
    return OwnerLimits()


def _free_mb(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free // 1_000_000
    except OSError:
        return None
