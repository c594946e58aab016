"""The bytes of uploads, in files that only grow."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from coordinator.errors import JournalError
from protofleet.util.files import OWN_FILE, own_file

# Theory of operation
#
# SQLite would write each upload twice, to its log and later to its file, checksum it twice, and
# cut it into pages. Here it is written once: `add` appends a batch of messages to the segment that
# is open and waits until it is on disk; the journal's rows (`logged`) then say where each lies.
#
# So bytes come before the rows that point to them. A crash between the two leaves bytes that no row
# points to: they are never read, and go with their segment. The other order would leave rows
# without bytes, and a round that cannot be fused.
#
# A segment is never written to by two lives: where a life ended nobody knows how much of the last
# write arrived, and what is appended behind a torn end would lie elsewhere than its span says. For
# the same reason a write that failed ends its segment; what it left is cut off, as on a full disk
# every byte counts, and if that fails, too, it does no harm.
#
# Space is given back by whole segments, once no row points into one. That is why they are short:
# one that never ended would keep all that was ever forgotten.
#
# They are called `bodies-NUMBER` on disk, and numbers only go up while any file is there.
#
# Several processes may write, each its own segments: one gives out the numbers (`reserve`), and
# removes none of the files until it is told that nobody writes to them (`release`).

LARGEST = 16 << 20  # a file this long is followed by the next, so that old ones can go
AT_ONCE = 512  # messages in one call, which costs half of what as many calls do


@dataclass(frozen=True)
class Span:
    """Where a message lies."""

    file: int
    start: int
    length: int


class SegmentLog:
    """The segments of a directory; every life, and every failure to write, begins a new one, under
    the number that `next_number` gives where somebody else gives them out.
    """

    def __init__(self, directory: Path, next_number: Callable[[], int] | None = None) -> None:
        self._directory, self._next_number = directory, next_number or self._after_all
        self._file: int | None = None
        self._number, self._length = 0, 0
        self._reserved: set[int] = set()

    def close_to_others(self) -> None:
        """Segments of an earlier release could be read by every user of the machine."""
        for number in self._numbers():
            own_file(self._path(number))

    def add(self, messages: Sequence[bytes]) -> list[Span]:
        """Write them, and return when they are on disk."""
        if not messages:
            return []
        file = self._begin() if self._file is None or self._length >= LARGEST else self._file
        before = self._length
        spans = []
        for message in messages:
            spans.append(Span(self._number, self._length, len(message)))
            self._length += len(message)
        try:
            _write(file, messages)
        except OSError as error:
            self.close()
            self._shorten(before)
            raise JournalError(f"the journal cannot be written: {error}") from error
        return spans

    def read(self, span: Span) -> bytes | None:
        """One message; None where its file has gone, or has lost its end."""
        try:
            with self._path(span.file).open("rb") as file:
                file.seek(span.start)
                message = file.read(span.length)
        except FileNotFoundError:
            return None
        return message if len(message) == span.length else None

    def reserve(self) -> int:
        """A number for a segment that somebody else writes."""
        number = self._after_all()
        self._reserved.add(number)
        return number

    def release(self, number: int) -> None:
        """Nobody writes to it any more."""
        self._reserved.discard(number)

    def drop(self, but: Collection[int]) -> None:
        """Remove every file but these and those that are written."""
        current = self._reserved | ({self._number} if self._file is not None else set())
        for number in self._numbers() - set(but) - current:
            self._path(number).unlink()

    def size(self) -> int:
        """Bytes in all."""
        return sum(self._path(number).stat().st_size for number in self._numbers())

    def close(self) -> None:
        """Write no more to the file that is open; the next message begins another."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _begin(self) -> int:
        self.close()
        self._number, self._length = self._next_number(), 0
        try:
            self._file = os.open(
                self._path(self._number), os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWN_FILE
            )
            # The file's name must outlive a loss of power as its bytes do, and lies elsewhere.
            directory = os.open(self._directory, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        except OSError as error:
            self.close()
            raise JournalError(f"the journal cannot be written: {error}") from error
        return self._file

    def _after_all(self) -> int:
        return max(self._numbers() | self._reserved, default=0) + 1

    def _shorten(self, length: int) -> None:
        with suppress(OSError):
            if length:
                os.truncate(self._path(self._number), length)
            else:
                self._path(self._number).unlink()

    def _numbers(self) -> set[int]:
        names = (path.name.removeprefix("bodies-") for path in self._directory.glob("bodies-*"))
        return {int(name) for name in names if name.isdigit()}

    def _path(self, number: int) -> Path:
        return self._directory / f"bodies-{number}"


def _write(file: int, messages: Sequence[bytes]) -> None:
    """All of them, to the disk itself."""
    for first in range(0, len(messages), AT_ONCE):
        some = messages[first : first + AT_ONCE]
        # A disk with little room takes a part and calls it success.
        if os.writev(file, some) < sum(map(len, some)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    getattr(os, "fdatasync", os.fsync)(file)
    # They are not read again soon, and pages that come back at once are cheap to take.
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
