"""Hours of the day in which a device may train."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import time

from protofleet.errors import SettingError

_FORM = re.compile(r"(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})")
Window = tuple[time, time]


def parse_windows(texts: Sequence[str]) -> tuple[Window, ...]:
    """`["22:00-06:00"]` as pairs of times."""
    return tuple(_window(text) for text in texts)


def is_open(windows: Sequence[Window], now: time) -> bool:
    """Whether training may begin now; without windows always. A window may go over midnight."""
    return not windows or any(a <= now < b if a < b else now >= a or now < b for a, b in windows)


def _window(text: str) -> Window:
    found = _FORM.fullmatch(text.strip())
    try:
        if found is None:
            raise ValueError
        a, b, c, d = map(int, found.groups())
        return time(a, b), time(0 if c == 24 else c, d)
    except ValueError:
        raise SettingError(f"limits.windows: {text!r} is not of the form 22:00-06:00") from None
