"""A zip that somebody else made: how much is in it is known before anything of it is unpacked.

Python's own reader makes an object of every entry there is, and unpacks what an entry's compressed
bytes hold, whatever its size is said to be. So the end of the file is looked at first, and an entry
is read as far as its size and no further.
"""

from __future__ import annotations

import io
import os
import struct
import zipfile
import zlib
from dataclasses import dataclass
from typing import BinaryIO

ENTRIES = 64
# Of the table of entries: a name of 100 characters with all that goes with it, twice as much.
TABLE = ENTRIES * 512
# Bytes that any zip may unpack to, and how many more for each of its own: weights hardly shrink,
# the made-up images of a self-test shrink to a hundredth.
FREE, RATIO = 64 << 20, 8
# What `zipfile` raises of bytes that are no zip; NotImplementedError is of a method it lacks.
UNREADABLE = (OSError, zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, ValueError)

_END, _END64 = b"PK\5\6", b"PK\6\7"
_TAIL = struct.Struct("<4s4H2LH")
_LOCATOR = 20  # bytes, in front of the tail, of what speaks of a second, larger one


@dataclass(frozen=True)
class Zipped:
    """An open zip whose entries are few and no larger than they may be."""

    packed: zipfile.ZipFile

    def read(self, name: str, largest: int | None = None) -> bytes:
        """One of them; KeyError where it is not, `BadZipFile` where it is not what it says."""
        entry = self.packed.getinfo(name)
        if largest is not None and entry.file_size > largest:
            raise zipfile.BadZipFile(f"{name} holds {entry.file_size} bytes")
        with self.packed.open(entry) as file:
            # Not `ZipFile.read`: that unpacks all that there is and cuts it off after.
            data = file.read(entry.file_size)
        if len(data) != entry.file_size:
            raise zipfile.BadZipFile(f"{name} ends early")
        return data

    def names(self) -> list[str]:
        """In the order of the table."""
        return self.packed.namelist()


def opened(file: BinaryIO, most: int) -> Zipped:
    """A zip whose entries are at most `most` bytes together, or `BadZipFile`."""
    size = _looked_at(file)
    packed = zipfile.ZipFile(file)
    entries = packed.infolist()
    if len({entry.filename for entry in entries}) != len(entries):
        raise zipfile.BadZipFile("two entries of one name")
    for entry in entries:
        if entry.flag_bits & 1 or entry.compress_type not in (0, zipfile.ZIP_DEFLATED):
            raise zipfile.BadZipFile(f"{entry.filename[:60]!r} is packed in a way of its own")
    total, bound = sum(entry.file_size for entry in entries), min(most, FREE + RATIO * size)
    if total > bound:
        raise zipfile.BadZipFile(f"{size} bytes that unpack to {total}, at most {bound} are due")
    return Zipped(packed)


def of_bytes(data: bytes, most: int) -> Zipped:
    """The same of bytes in memory."""
    return opened(io.BytesIO(data), most)


def _looked_at(file: BinaryIO) -> int:
    """The file's size, if its table of entries is small and ends where the file does."""
    size = file.seek(0, os.SEEK_END)
    at = size - _TAIL.size
    if at < 0:
        raise zipfile.BadZipFile("too short for one")
    file.seek(max(0, at - _LOCATOR))
    before = file.read(min(at, _LOCATOR))
    mark, disk, first, here, entries, table, start, comment = _TAIL.unpack(file.read(_TAIL.size))
    if mark != _END or comment or disk or first or here != entries:
        raise zipfile.BadZipFile("it does not end as one does")
    # The second tail may say anything else, and Python's reader believes it before this one.
    if before[:4] == _END64 or entries > ENTRIES or table > TABLE or start + table != at:
        raise zipfile.BadZipFile(f"{entries} entries in {table} bytes, at most {ENTRIES} are due")
    file.seek(0)
    return size
