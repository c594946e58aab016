"""Where chunks wait until their payload is whole: files in one directory, bounded in size and age.

A payload is two files: its bytes in place, and one byte a chunk that says what is there, written
after the bytes. So a transfer goes on after a restart; whatever a crash left half written is caught
by the hash, which empties it.
"""

# Theory of operation
#
# Files. A payload with base name B is `B.parcel`, as long as the payload from the start, and
# `B.marks`, a byte for each chunk: 1 for there, 0 for missing. B is made of owner, digest, size and
# chunk length, so that the files of an earlier process are found again by whoever announces the
# same, and by nobody else.
#
#   event                          bytes                 marks                 afterwards
#   open, nothing there            sparse file           all 0                 all missing
#   open, files that fit           as they are           as they are           the rest missing
#   open, files that do not fit    made anew             made anew, before     all missing
#   add                            written in place      1, after the bytes    one missing less
#   payload, hash right            read                  -                     close removes both
#   file, hash right               the caller's          removed               released
#   either, hash wrong             made anew             made anew, before     all missing
#
# The marks follow the bytes and go before them, so a process that is killed at any point leaves at
# most a chunk that is there and unmarked: it is asked for again. A machine that loses power may
# leave the reverse, for nothing is synced: the hash finds that, and costs the whole payload. To
# sync each chunk would cost every payload more.
#
# Bounds. A payload may be as large as `largest`, all of them together as `total`; what does not fit
# is made to fit by forgetting what was touched longest ago; and there are at most MOST. Memory is a
# byte a chunk. The sizes count from the moment of `open` (a sparse file is going to be filled), so
# that nothing has to be refused half-way.
#
# Leftovers, the files of an earlier process, count on disk until their owner opens them, or room is
# needed, or `sweep` has come round once. `sweep` is for receivers whose senders may simply be gone;
# a device, which awaits its own few, does without.

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from hashlib import file_digest, sha256
from pathlib import Path

from protofleet.errors import BlobError
from protofleet.mqtt.blobs.descriptor import BlobDescriptor, Ranges, ranges_of
from protofleet.util.files import new_file, own_folder

# The suffixes are on devices' disks: a transfer goes on over an update, too.
DATA, MARKS = ".parcel", ".marks"
MOST = 4096  # payloads: small ones would be files without end


class IncomingBlob:
    """One payload on its way in. `touched` is when something last came, by the given clock."""

    def __init__(self, base: Path, descriptor: BlobDescriptor, clock: Callable[[], float]) -> None:
        self.descriptor = descriptor
        self._data, self._marks = base.with_suffix(DATA), base.with_suffix(MARKS)
        self._clock = clock
        self.touched = clock()
        self._have = self._left_over()
        self._missing = self._have.count(0)

    def _left_over(self) -> bytearray:
        """The marks of an earlier life, if they fit."""
        try:
            marks = self._marks.read_bytes()
            if (
                len(marks) == self.descriptor.chunks
                and self._data.stat().st_size == self.descriptor.size
                and set(marks) <= {0, 1}
            ):
                return bytearray(marks)
        except OSError:
            pass
        return self._empty()

    def _empty(self) -> bytearray:
        # Marks first: killed between the two, no mark speaks of bytes that are gone.
        marks = bytearray(self.descriptor.chunks)
        with new_file(self._marks) as file:
            file.write(marks)
        with new_file(self._data) as file:
            file.truncate(self.descriptor.size)
        return marks

    @property
    def complete(self) -> bool:
        return self._missing == 0

    def add(self, index: int, chunk: bytes) -> bool:
        """Put a chunk in its place; False if it is not one of ours, of the wrong length, or there
        already.
        """
        if not 0 <= index < self.descriptor.chunks or len(chunk) != self.descriptor.length(index):
            return False
        self.touched = self._clock()
        if self._have[index]:
            return False
        _write(self._data, index * self.descriptor.chunk, chunk)
        _write(self._marks, index, b"\1")
        self._have[index] = 1
        self._missing -= 1
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
        payload = self._data.read_bytes()
        return payload if self._is_whole(sha256(payload).hexdigest()) else None

    def file(self) -> Path | None:
        """The same as a file, which from then on is the caller's: a payload may be larger than the
        process should be.
        """
        if not self.complete:
            return None
        with self._data.open("rb") as data:
            if not self._is_whole(file_digest(data, "sha256").hexdigest()):
                return None
        self._marks.unlink(missing_ok=True)
        return self._data

    def _is_whole(self, digest: str) -> bool:
        if digest == self.descriptor.digest:
            return True
        # Which chunk is wrong cannot be told: only the whole has a hash.
        self._have = self._empty()
        self._missing = len(self._have)
        return False

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
        self._dir, self._clock = dir, clock
        self._largest, self._total, self._expiry = largest, total, expiry
        self._incoming: dict[tuple[str, str], IncomingBlob] = {}
        own_folder(dir)
        self._leftovers = {
            path.with_suffix("") for path in dir.iterdir() if path.suffix in (DATA, MARKS)
        }

    def open(self, owner: str, descriptor: BlobDescriptor) -> IncomingBlob:
        """Where the chunks of this payload go, begun already or not. `BlobError` if it is too
        large.
        """
        if descriptor.size > min(self._largest, self._total):
            raise BlobError(
                f"{descriptor.size} bytes, at most {min(self._largest, self._total)} are taken in"
            )
        incoming = self._incoming.get((owner, descriptor.digest))
        if incoming is not None and incoming.descriptor == descriptor:
            incoming.touched = self._clock()
            return incoming
        # The same bytes, cut in another way: the chunks that are there fit no more.
        self.close(owner, descriptor.digest)
        base = self._dir / _name(owner, descriptor)
        self._make_room(descriptor.size, base)
        self._leftovers.discard(base)
        try:
            incoming = IncomingBlob(base, descriptor, self._clock)
        except OSError as error:
            _remove(base)
            raise BlobError(
                f"no room for {descriptor.size} bytes in {self._dir}: {error.strerror}"
            ) from None
        self._incoming[owner, descriptor.digest] = incoming
        return incoming

    def find(self, owner: str, digest: str) -> IncomingBlob | None:
        """Where a chunk goes that has just come; None for what nobody announced."""
        return self._incoming.get((owner, digest))

    def close(self, owner: str, digest: str) -> None:
        """It was taken out, or nobody wants it any more."""
        incoming = self._incoming.pop((owner, digest), None)
        if incoming is not None:
            incoming.remove()

    def release(self, owner: str, digest: str) -> None:
        """Its file was taken over: here it is no more."""
        self._incoming.pop((owner, digest), None)

    def sweep(self) -> None:
        """Forget what nothing was added to for too long, and what an earlier process left and
        nobody asked for.
        """
        oldest = self._clock() - self._expiry
        for owner, digest in [key for key, i in self._incoming.items() if i.touched < oldest]:
            self.close(owner, digest)
        for base in self._leftovers:
            _remove(base)
        self._leftovers.clear()

    @property
    def size(self) -> int:
        """Bytes set aside."""
        return sum(incoming.descriptor.size for incoming in self._incoming.values())

    def _make_room(self, size: int, keep: Path) -> None:
        for base in self._leftovers - {keep}:
            if self._on_disk() + size > self._total:
                _remove(base)
        self._leftovers = {base for base in self._leftovers if base.with_suffix(DATA).exists()}
        while self._incoming and (self.size + size > self._total or len(self._incoming) >= MOST):
            self.close(*min(self._incoming, key=lambda key: self._incoming[key].touched))

    def _on_disk(self) -> int:
        leftovers = 0
        for base in self._leftovers:
            with contextlib.suppress(OSError):
                leftovers += base.with_suffix(DATA).stat().st_size
        return self.size + leftovers


def _name(owner: str, descriptor: BlobDescriptor) -> str:
    """What the files are called: the same again in the next process."""
    # The text, down to the word `Slip`, is that of the first version: what a device had gathered
    # before an update is found by the name.
    cut = f"digest={descriptor.digest!r}, size={descriptor.size}, chunk={descriptor.chunk}"
    return sha256(f"({owner!r}, Slip({cut}))".encode()).hexdigest()[:32]


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
