"""Where chunks wait until their payload is whole: files in one directory, bounded in size and age.

A payload is two files: its bytes in place, and one byte a chunk that says what is there, written
after the bytes. So a transfer goes on after a restart; whatever a crash left half written is caught
by the hash, which empties it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from protofleet.errors import BlobError
from protofleet.mqtt.blobs.descriptor import BlobDescriptor, Ranges, ranges_of

DATA, MARKS = ".parcel", ".marks"


class IncomingBlob:
    """One payload on its way in. `touched` is when something last came, by the given clock."""

    def __init__(self, base: Path, slip: BlobDescriptor, clock: Callable[[], float]) -> None:
        self.slip = slip
        self._data, self._marks = base.with_suffix(DATA), base.with_suffix(MARKS)
        self._clock = clock
        self.touched = clock()
        self._have = self._found()
        self._left = self._have.count(0)

    def _found(self) -> bytearray:
        """The marks of an earlier life, if they fit."""
        try:
            have = self._marks.read_bytes()
            if (
                len(have) == self.slip.chunks
                and self._data.stat().st_size == self.slip.size
                and set(have) <= {0, 1}
            ):
                return bytearray(have)
        except OSError:
            pass
        return self._empty()

    def _empty(self) -> bytearray:
        have = bytearray(self.slip.chunks)
        self._marks.write_bytes(have)
        with self._data.open("wb") as file:
            file.truncate(self.slip.size)
        return have

    @property
    def complete(self) -> bool:
        return self._left == 0

    def add(self, index: int, chunk: bytes) -> bool:
        """Put a chunk in its place; False if it is not one of ours, of the wrong length, or there
        already.
        """
        if not 0 <= index < self.slip.chunks or len(chunk) != self.slip.length(index):
            return False
        self.touched = self._clock()
        if self._have[index]:
            return False
        _write(self._data, index * self.slip.chunk, chunk)
        _write(self._marks, index, b"\1")
        self._have[index] = 1
        self._left -= 1
        return True

    def missing(self, most: int = 256) -> Ranges:
        """Runs of chunks that are not there, at most so many runs."""
        return ranges_of((index for index, there in enumerate(self._have) if not there), most)

    def payload(self) -> bytes | None:
        """The bytes if all are there and the hash fits; a wrong hash empties it, so that all is
        missing again.
        """
        if not self.complete:
            return None
        data = self._data.read_bytes()
        if sha256(data).hexdigest() == self.slip.digest:
            return data
        self._have = self._empty()
        self._left = len(self._have)
        return None

    def remove(self) -> None:
        for file in (self._data, self._marks):
            file.unlink(missing_ok=True)


class BlobStore:
    """Payloads on their way in, by owner and digest: bounded each, together, and in seconds without
    news.
    """

    def __init__(
        self, dir: Path, *, largest: int, total: int, expiry: float, clock: Callable[[], float]
    ) -> None:
        self._dir, self._largest, self._total, self._expiry, self._clock = (
            dir,
            largest,
            total,
            expiry,
            clock,
        )
        self._held: dict[tuple[str, str], IncomingBlob] = {}
        self._strangers: set[Path] = set()
        dir.mkdir(parents=True, exist_ok=True)
        self._strangers = {
            path.with_suffix("") for path in dir.iterdir() if path.suffix in (DATA, MARKS)
        }

    def open(self, owner: str, slip: BlobDescriptor) -> IncomingBlob:
        """Where the chunks of this slip go, begun already or not. `ParcelError` if it is too
        large.
        """
        if slip.size > min(self._largest, self._total):
            raise BlobError(
                f"{slip.size} bytes, at most {min(self._largest, self._total)} are taken in"
            )
        held = self._held.get((owner, slip.digest))
        if held is not None and held.slip == slip:
            held.touched = self._clock()
            return held
        self.close(owner, slip.digest)
        base = self._dir / sha256(repr((owner, slip)).encode()).hexdigest()[:32]
        self._make_room(slip.size, base)
        self._strangers.discard(base)
        try:
            incoming = IncomingBlob(base, slip, self._clock)
        except OSError as error:
            _remove(base)
            raise BlobError(
                f"no room for {slip.size} bytes in {self._dir}: {error.strerror}"
            ) from None
        self._held[owner, slip.digest] = incoming
        return incoming

    def find(self, owner: str, digest: str) -> IncomingBlob | None:
        """Where a chunk goes that has just come; None for what nobody announced."""
        return self._held.get((owner, digest))

    def close(self, owner: str, digest: str) -> None:
        """It was taken out, or nobody wants it any more."""
        held = self._held.pop((owner, digest), None)
        if held is not None:
            held.remove()

    def sweep(self) -> None:
        """Forget what nothing was added to for too long, and what an earlier process left and
        nobody asked for.
        """
        old = self._clock() - self._expiry
        for owner, digest in [key for key, held in self._held.items() if held.touched < old]:
            self.close(owner, digest)
        for base in self._strangers:
            _remove(base)
        self._strangers.clear()

    @property
    def size(self) -> int:
        """Bytes set aside."""
        return sum(held.slip.size for held in self._held.values())

    def _make_room(self, size: int, keep: Path) -> None:
        for base in self._strangers - {keep}:
            if self._on_disk() + size > self._total:
                _remove(base)
        self._strangers = {base for base in self._strangers if base.with_suffix(DATA).exists()}
        while self._held and self.size + size > self._total:
            self.close(*min(self._held, key=lambda key: self._held[key].touched))

    def _on_disk(self) -> int:
        strangers = 0
        for base in self._strangers:
            with contextlib.suppress(OSError):
                strangers += base.with_suffix(DATA).stat().st_size
        return self.size + strangers


def _remove(base: Path) -> None:
    for suffix in (DATA, MARKS):
        base.with_suffix(suffix).unlink(missing_ok=True)


def _write(path: Path, offset: int, data: bytes) -> None:
    """In place; the file is opened each time, so that a thousand transfers hold no descriptors."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.pwrite(descriptor, data, offset)
    finally:
        os.close(descriptor)
