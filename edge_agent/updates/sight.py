"""The newest answer of whoever looks (`edge-agent infer`, `edge-agent watch`), and how many there
were: left beside the bundle, for the daemon to tell Home Assistant and for metrics.
"""

# How a program that answers tells it, one object as long as it looks:
#
#   sights = Sights(bundle)
#   sights.add(Sight("mug", 0.93, unknown=False, source="door", at=time.time()))
#   sights.frames(1203, dropped=17)     # of cameras: how many there were so far, and were not
#                                       # looked at
#   sights.save()                       # before the process ends
#
# The file is written once in EVERY seconds at most: an answer in between is counted, and only the
# newest is shown. Two programs that look through one bundle write over each other; each counts its
# own, and a counter that goes back is what Prometheus takes for a restart.

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from edge_agent.updates import cache
from protofleet.errors import SettingError
from protofleet.settings.fields import from_plain
from protofleet.util.files import OWN_FILE, own_folder, write_whole

EVERY = 1.0  # seconds
LARGEST = 16_384  # bytes of the file
LONGEST = 200  # letters of what is shown


@dataclass(frozen=True)
class Sight:
    """An answer; no label where nobody knows a class yet."""

    label: str = ""
    probability: float | None = None
    unknown: bool = False
    source: str = ""  # a camera's name, or a file's
    at: float = 0.0  # by the wall's clock
    key: str = ""  # of its picture in the recent queue


@dataclass(frozen=True)
class LookerCount:
    """What one program did since it began."""

    since: float = 0.0
    answers: int = 0
    unknown: int = 0
    frames: int = 0
    dropped: int = 0


@dataclass(frozen=True)
class Outlook:
    """Both, as they are left."""

    newest: Sight
    count: LookerCount


class Sights:
    """Told by whoever looks."""

    def __init__(self, bundle: Path, now: Callable[[], float] = time.time) -> None:
        self._file, self._now = sight_file(bundle), now
        self._outlook = Outlook(Sight(), LookerCount(now()))
        self._written_at = 0.0

    def add(self, sight: Sight) -> None:
        """One more answer."""
        count = self._outlook.count
        more = replace(
            count, answers=count.answers + 1, unknown=count.unknown + bool(sight.unknown)
        )
        self._outlook = Outlook(sight, more)
        self._write_soon()

    def frames(self, every: int, *, dropped: int) -> None:
        """So many there were so far, and so many of them nobody looked at."""
        count = replace(self._outlook.count, frames=every, dropped=dropped)
        self._outlook = replace(self._outlook, count=count)
        self._write_soon()

    def save(self) -> None:
        """As it stands."""
        self._written_at = self._now()
        document = json.dumps(asdict(self._outlook)).encode()
        with suppress(OSError):  # a full disk is no reason not to look
            own_folder(self._file.parent)
            write_whole(self._file, document, lasting=False, mode=OWN_FILE)

    def _write_soon(self) -> None:
        if abs(self._now() - self._written_at) >= EVERY:
            self.save()


def sight_file(bundle: Path) -> Path:
    """Where it is left."""
    return cache.recent_folder(bundle) / "sight.json"


def read(bundle: Path) -> Outlook | None:
    """What was left last; nothing where nobody looked, or it is damaged."""
    try:
        with sight_file(bundle).open("rb") as file:
            document = json.loads(file.read(LARGEST))
        return from_plain(Outlook, document, "sight")
    except (OSError, ValueError, RecursionError, SettingError):
        return None


def shown(sight: Sight) -> dict[str, Any]:
    """As others see it: bounded, whatever a class is called."""
    return {
        "label": sight.label[:LONGEST],
        "probability": sight.probability,
        "unknown": sight.unknown,
        "source": sight.source[:LONGEST],
        "at": sight.at,
    }
