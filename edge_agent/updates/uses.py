"""What processes that classify leave beside a bundle: how often they started with it, and how often
they answered.

`B.uses.json` is one small file, replaced whole; the daemon reads it, whoever wrote it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from protofleet.errors import SettingError
from protofleet.settings.fields import from_plain
from protofleet.util.files import OWN_FILE, write_whole

EVERY = 2.0  # seconds between two writes, but for the first answer
LARGEST = 4096  # bytes


@dataclass(frozen=True)
class UseCount:
    """Of one bundle: starts, those in a row that ended while it was loaded or first asked, and
    answers.
    """

    bundle: str = ""
    starts: int = 0
    silent: int = 0
    answers: int = 0


def uses_file(bundle: Path) -> Path:
    """Where it lies."""
    return bundle.with_name(bundle.name + ".uses.json")


def read_uses(bundle: Path) -> UseCount:
    """What was written last; nothing where nobody classifies."""
    try:
        with uses_file(bundle).open("rb") as file:
            return from_plain(UseCount, json.loads(file.read(LARGEST)))
    except (OSError, ValueError, SettingError, TypeError):
        return UseCount()


class AnswerCount:
    """Kept by a process that classifies: it says what it is about to do, so that what ends it is
    counted, too.
    """

    def __init__(self, bundle: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._bundle, self._clock = bundle, clock
        self._count, self._next_at = UseCount(), 0.0
        self._asked = ""  # the bundle that was asked something in this life

    def begin(self, bundle: str) -> None:
        """It is about to be loaded."""
        if not bundle or bundle == self._count.bundle:
            return
        before = read_uses(self._bundle)
        before = before if before.bundle == bundle else UseCount(bundle)
        self._count = replace(before, starts=before.starts + 1, silent=before.silent + 1)
        self._write()

    def ready(self) -> None:
        """It is loaded, and nobody has asked it anything yet."""
        if self._count.silent and not self._asked:
            self._count = replace(self._count, silent=self._count.silent - 1)
            self._write()

    def asking(self, bundle: str) -> None:
        """It is about to be asked; the first time is what matters."""
        self.begin(bundle)
        if self._asked != bundle:
            self._asked = bundle
            self._count = replace(self._count, silent=self._count.silent + 1)
            self._write()

    def answered(self, bundle: str, number: int = 1) -> None:
        """So many more, by this one."""
        self.begin(bundle)
        first = self._count.silent > 0
        answers = self._count.answers + number
        self._count = replace(self._count, answers=answers, silent=0)
        if first or self._clock() >= self._next_at:
            self._write()

    def _write(self) -> None:
        self._next_at = self._clock() + EVERY
        text = json.dumps(asdict(self._count))
        with suppress(OSError):  # what it is for can do without
            path = uses_file(self._bundle)
            write_whole(path, text.encode(), lasting=False, mode=OWN_FILE)
