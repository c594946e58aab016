"""The bytes of uploads, in files that only grow: each is written once, where SQLite would write,
sum and move it twice.

What `add` returns is on disk; the journal's rows then say where. Bytes that no row points to, as
after a crash between the two, lie there unread until their file goes.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from coordinator.errors import JournalError

LARGEST = 16 << 20  # a file this long is followed by the next, so that old ones can go
AT_ONCE = 512  # bodies in one call, which costs half of what as many calls do


@dataclass(frozen=True)
class Span:
    """Where a body lies."""

    file: int
    start: int
    length: int


class SegmentLog:
    """The files `bodies-NUMBER` of a directory; every life, and every failure to write, begins a
    new one.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file: int | None = None
        self._number, self._length = 0, 0

    def add(self, bodies: Sequence[bytes]) -> list[Span]:
        """Write them, and return when they are on disk."""
        if not bodies:
            return []
        file = self._begin() if self._file is None or self._length >= LARGEST else self._file
        before = self._length
        spans = []
        for body in bodies:
            spans.append(Span(self._number, self._length, len(body)))
            self._length += len(body)
        try:
            _write(file, bodies)
        except OSError as error:
            self.close()
            self._shorten(before)
            raise JournalError(f"the journal cannot be written: {error}") from error
        return spans

    def read(self, span: Span) -> bytes | None:
        """One body; None where its file has gone, or has lost its end."""
        try:
            with self._path(span.file).open("rb") as file:
                file.seek(span.start)
                body = file.read(span.length)
        except FileNotFoundError:
            return None
        return body if len(body) == span.length else None

    def drop(self, but: Collection[int]) -> None:
        """Remove every file but these and the one that is written."""
        for number in (
            self._there() - set(but) - ({self._number} if self._file is not None else set())
        ):
            self._path(number).unlink()

    def size(self) -> int:
        """Bytes in all."""
        return sum(self._path(number).stat().st_size for number in self._there())

    def close(self) -> None:
        """Write no more to the file that is open; the next body begins another."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _begin(self) -> int:
        self.close()
        self._number, self._length = max(self._there(), default=0) + 1, 0
        try:
            self._file = os.open(
                self._path(self._number), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644
            )
            folder = os.open(self._directory, os.O_RDONLY)
            try:
                os.fsync(folder)  # the file's name, too, outlives a loss of power
            finally:
                os.close(folder)
        except OSError as error:
            self.close()
            raise JournalError(f"the journal cannot be written: {error}") from error
        return self._file

    def _shorten(self, length: int) -> None:
        with suppress(OSError):
            if length:
                os.truncate(self._path(self._number), length)
            else:
                self._path(self._number).unlink()

    def _there(self) -> set[int]:
        names = (path.name.removeprefix("bodies-") for path in self._directory.glob("bodies-*"))
        return {int(name) for name in names if name.isdigit()}

    def _path(self, number: int) -> Path:
        return self._directory / f"bodies-{number}"


def _write(file: int, bodies: Sequence[bytes]) -> None:
    """All of them, to the disk itself."""
    for first in range(0, len(bodies), AT_ONCE):
        some = bodies[first : first + AT_ONCE]
        if os.writev(file, some) < sum(map(len, some)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    getattr(os, "fdatasync", os.fsync)(file)
    if hasattr(
        os, "posix_fadvise"
    ):  # they are not read again soon, and pages that come back at once are cheap to take
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
