"""Payloads too large for one packet, on their way in: the one place that gathers chunks, asks for
what is missing, and hands over what is whole.
"""

# Theory of operation
#
# A payload too large for one packet travels as a descriptor in its place (a message of type `slip`
# on the payload's own topic: sha256, size, length of a chunk) and as numbered chunks, each one
# publication on a topic that ends in .../<sha256>/<number>. The receiver drives: it names what it
# misses, in runs [first, last], and the sender sends that.
#
#                   coordinator to device                  device to coordinator
#   descriptor on   g/train, d/<id>/down, g/<ch>/...       d/<id>/up/<round>
#   missing, by     command on d/<id>/blob/req             receipt with status `missing`
#   chunks on       g/blob/... to all, d/<id>/blob/...     d/<id>/ub/...
#   asked first     at once; a state for all after 3 s     at once
#   asked again     3, 6, 12 ... 120 s without a chunk     when it is announced again
#   at a cut        asked at once when connected again     the device announces again
#   forgotten       when a newer one is announced          the same, or after 10 min of nothing
#
# A state for all is sent to all once, right behind its descriptor; asked for at once, each of a
# thousand devices would have every chunk sent twice. An upload needs no clock at the receiver: the
# device announces it again when its chunks have left, and as long as it has no receipt.
#
# Each payload has an owner, and an owner has one payload under way: at the coordinator the device
# it comes from, so that nobody fills the disk nor writes into another's upload; at a device the
# kind of topic, for only the newest state counts. What is announced with another descriptor drops
# the one before, also when it is itself too large to be taken in.
#
#   event                               what happens
#   announced, new                      the one before is dropped; room is made in the store
#   announced, too large, no room       the one before is dropped; `BlobError`
#   announced, as before                goes on; what an earlier process had gathered counts
#   announced, nothing missing          handed over at once
#   chunk that nobody expects           nothing: it was whole already, or was dropped
#   chunk, wrong number or length       nothing
#   chunk, there already                nothing
#   chunk, new                          stored; the wait for the next request begins anew
#   last chunk, the hash fits           handed over, and its files are removed; bundles and totals
#                                       are handed over as the files that they are
#   last chunk, the hash does not fit   everything is missing again
#   asked, but the store forgot it      forgotten here, too
#
# Nothing is believed: a chunk's topic says where it goes, the hash of the whole says whether it was
# right. The payload then takes the way it would have taken in one packet (`Blob.parts`), so nobody
# further in knows how it came.
#
# What is lost is found by asking again, therefore chunks need no order and no acknowledgement of
# their own; MQTT's QoS 1 keeps the sender from losing them within a session.

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from protofleet import wire
from protofleet.errors import BlobError, LinkBusy
from protofleet.mqtt.blobs.descriptor import BlobDescriptor, Ranges
from protofleet.mqtt.blobs.sender import Publisher
from protofleet.mqtt.blobs.store import BlobStore
from protofleet.mqtt.topics import TopicParts, Topics

PATIENCE = 3.0  # seconds without a chunk before the missing ones are asked for
LONGEST = 120.0  # seconds; each further request waits twice as long as the one before
DAY = 86400.0
# Owners name files on devices' disks (`store`), where these two have always been called so.
OWNERS = {"shared_state": "train", "own_state": "down"}


# Topics whose payloads may be larger than a device's memory should be: they are handed over as
# files, and what is done with them is done by a process of its own.
AS_FILES = (("bundle",), ("proto", "total"))


@dataclass(frozen=True)
class Blob:
    """A large payload put together again, and the topic it belongs on. `file` is where it is, for
    the caller to take or remove, where `payload` is empty.
    """

    parts: TopicParts
    payload: bytes
    file: Path | None = None


@dataclass(slots=True)
class ExpectedBlob:
    """A payload that is on its way in."""

    parts: TopicParts
    descriptor: BlobDescriptor
    envelope: wire.Envelope  # its descriptor's
    ask_at: float
    attempts: int = 0


Ask = Callable[[ExpectedBlob, Ranges], None]


class BlobReceiver:
    """What is on its way in, one payload an owner; `ask` tells the sender what is missing. A
    payload that is put together in memory has at most `message` bytes.
    """

    def __init__(
        self,
        store: BlobStore,
        ask: Ask,
        clock: Callable[[], float],
        message: int = wire.DEFAULT.message,
    ) -> None:
        self._store, self._ask, self._clock, self._message = store, ask, clock, message
        self._expected: dict[str, ExpectedBlob] = {}

    def announce(
        self, parts: TopicParts, message: wire.Message, owner: str | None = None
    ) -> Blob | None:
        """A descriptor came: the payload, if nothing of it is missing. Without an owner it is the
        kind of topic. `BlobError` if it is not taken in.
        """
        owner = OWNERS.get(parts.kind, parts.kind) if owner is None else owner
        descriptor = BlobDescriptor.from_body(message.body)
        before = self._expected.get(owner)
        if before is not None and before.descriptor != descriptor:
            self._drop(owner)
        if not _as_file(parts) and descriptor.size > self._message:
            raise BlobError(f"{descriptor.size} bytes, at most {self._message} are a message")
        self._store.open(owner, descriptor)
        ask_at = self._clock() + (PATIENCE if parts.kind == "shared_state" else 0.0)
        self._expected[owner] = ExpectedBlob(parts, descriptor, message.envelope, ask_at)
        return self._whole(owner)

    def chunk(self, parts: TopicParts, chunk: bytes, owner: str | None = None) -> Blob | None:
        """A chunk came: the payload, if it was the last one. With an owner, it is for no other."""
        digest, number = parts.rest
        for name in list(self._expected) if owner is None else (owner,):
            expected, incoming = self._expected.get(name), self._store.find(name, digest)
            if expected is None or incoming is None:
                continue
            try:
                if incoming.add(int(number), chunk):
                    expected.ask_at, expected.attempts = self._clock() + PATIENCE, 0
                return self._whole(name)
            except OSError as error:
                raise BlobError(f"a chunk found no room on the disk: {error.strerror}") from error
        return None

    def forget(self, kind: str) -> None:
        """Nobody wants the payload of this kind of topic any more."""
        self._drop(OWNERS.get(kind, kind))

    def connected(self) -> None:
        """Chunks published meanwhile may be lost: ask anew."""
        now = self._clock()
        for expected in self._expected.values():
            expected.ask_at, expected.attempts = now, 0

    @property
    def due(self) -> float | None:
        """When there is something to ask for."""
        return min((expected.ask_at for expected in self._expected.values()), default=None)

    def ask_due(self) -> None:
        """Ask for what has been missing for long enough; where the link is full, the next time."""
        now = self._clock()
        with suppress(LinkBusy):
            for owner, expected in list(self._expected.items()):
                absent = self._store.find(owner, expected.descriptor.digest) is None
                if absent or now >= expected.ask_at:
                    self.ask(owner)

    def ask(self, owner: str) -> None:
        """Ask now for what is missing."""
        expected = self._expected[owner]
        incoming = self._store.find(owner, expected.descriptor.digest)
        if incoming is None:
            del self._expected[owner]
            return
        # Before the wait is set: where the link is full this raises, and is due still.
        self._ask(expected, incoming.missing())
        wait = min(LONGEST, PATIENCE * 2.0 ** min(expected.attempts, 10))
        expected.ask_at, expected.attempts = self._clock() + wait, expected.attempts + 1

    def sweep(self) -> None:
        """Drop what nobody goes on with."""
        self._store.sweep()
        for owner, expected in list(self._expected.items()):
            if self._store.find(owner, expected.descriptor.digest) is None:
                del self._expected[owner]

    def _drop(self, owner: str) -> None:
        expected = self._expected.pop(owner, None)
        if expected is not None:
            self._store.close(owner, expected.descriptor.digest)

    def _whole(self, owner: str) -> Blob | None:
        expected = self._expected[owner]
        parts, digest = expected.parts, expected.descriptor.digest
        incoming = self._store.find(owner, digest)
        if incoming is None:
            return None
        if _as_file(parts):
            file = incoming.file()
            if file is None:
                return None
            self._store.release(owner, digest)
            del self._expected[owner]
            return Blob(parts, b"", file)
        payload = incoming.payload()
        if payload is None:
            return None
        self._drop(owner)
        return Blob(parts, payload)


def _as_file(parts: TopicParts) -> bool:
    words = (parts.kind, *parts.rest)
    return any(words[: len(some)] == some for some in AS_FILES)


def device_receiver(
    topics: Topics,
    agent: str,
    folder: Path,
    publisher: Publisher,
    clock: Callable[[], float],
    largest: int,
    message: int = wire.DEFAULT.message,
) -> BlobReceiver:
    """A device's: it asks by a command on its own topic, for as long as it takes. What travels as a
    file may have `largest` bytes, what is put together in memory `message`.
    """

    def ask(expected: ExpectedBlob, missing: Ranges) -> None:
        # In the envelope of what it is about, so that the coordinator sees of which run.
        envelope = replace(expected.envelope, t="command", agent=agent, base=None, method=None)
        body = {"digest": expected.descriptor.digest, "missing": [list(run) for run in missing]}
        publisher.publish(topics.chunk_request(agent), wire.encode(envelope, body))

    # Twice the largest: the state of all and the device's own may be under way together.
    store = BlobStore(folder, largest=largest, total=2 * largest, expiry=DAY, clock=clock)
    return BlobReceiver(store, ask, clock, message)
