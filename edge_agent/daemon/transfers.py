"""Large payloads, in chunks: what comes down is pulled until it is whole, what goes up is sent as
it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edge_agent.protocol.actions import SendChunks
from protofleet import wire
from protofleet.errors import BlobError
from protofleet.mqtt.blobs.descriptor import BlobDescriptor, BlobLimits, slip_message
from protofleet.mqtt.blobs.sender import BlobSender, OutgoingBlob, Publisher
from protofleet.mqtt.blobs.store import BlobStore
from protofleet.mqtt.topics import TopicParts, Topics

DAY = 86400.0
PATIENCE = 3.0  # seconds without a chunk before the missing ones are asked for; then twice as long each time
LONGEST = 120.0


@dataclass(frozen=True)
class Blob:
    """A payload put together again, and the topic it belongs on."""

    place: TopicParts
    payload: bytes


@dataclass(frozen=True)
class _Wanted:
    """A payload that is coming down."""

    place: TopicParts
    slip: BlobDescriptor
    envelope: wire.Envelope
    pull_at: float
    attempts: int = 0


@dataclass(frozen=True)
class _Leaving:
    """A payload that is going up; `asked` while chunks are on their way that the coordinator
    wanted.
    """

    sending: BlobSender
    topic: str
    slip: bytes
    asked: bool = False


class Transfers:
    """What is under way in either direction. The newest state of a kind replaces the one before."""

    def __init__(
        self,
        topics: Topics,
        agent: str,
        folder: Path,
        out: Publisher,
        clock: Callable[[], float],
        largest: int,
    ) -> None:
        self.topics, self.agent, self.out, self.clock = topics, agent, out, clock
        self.packet = 0
        self._largest = largest
        self._spool = BlobStore(folder, largest=largest, total=2 * largest, expiry=DAY, clock=clock)
        self._down: dict[str, _Wanted] = {}
        self._up: dict[tuple[str, int], _Leaving] = {}

    def outgoing(self, run: str, round: int, message: bytes) -> bytes | None:
        """What goes on the upload's topic: the message, a slip in its place, or nothing while its
        chunks still go.
        """
        limits = BlobLimits(self.packet, largest=self._largest) if self.packet else BlobLimits()
        if limits.fits(message):
            return message
        known = self._up.get((run, round))
        if known is not None and not known.sending.done:
            return None
        envelope, _ = wire.unseal(message)
        parcel = OutgoingBlob(message, limits.chunk)
        digest, slip = parcel.slip.digest, slip_message(envelope, parcel.slip)
        sending = BlobSender(
            parcel, lambda index: self.topics.upload_chunk(self.agent, digest, index), limits.window
        )
        self._up[run, round] = _Leaving(sending, self.topics.upload(self.agent, round), slip)
        return slip

    def digest(self, run: str, round: int) -> str:
        """The name under which a large upload goes; empty for one that went whole."""
        found = self._up.get((run, round))
        return "" if found is None else found.sending.parcel.slip.digest

    def send_chunks(self, wanted: SendChunks) -> None:
        """The coordinator misses these."""
        found = self._up.get((wanted.run, wanted.round))
        if found is not None and found.sending.parcel.slip.digest == wanted.digest:
            last = found.sending.parcel.slip.chunks - 1
            found.sending.want([(a, min(b, last)) for a, b in wanted.missing if a <= last])
            self._up[wanted.run, wanted.round] = replace(found, asked=True)

    def settled(self, run: str, round: int) -> None:
        """Nobody needs its chunks any more."""
        self._up.pop((run, round), None)

    def slip(self, place: TopicParts, message: wire.Message) -> Blob | None:
        """A large state is announced: it is whole at once if an earlier life had fetched it."""
        slip = BlobDescriptor.from_body(message.body)
        known = self._down.get(place.kind)
        if known is not None and known.slip != slip:
            self._spool.close(place.kind, known.slip.digest)
        self._spool.open(place.kind, slip)
        # What goes to all is sent to all once; only who misses some of it then has to ask.
        wait = PATIENCE if place.kind == "shared_state" else 0.0
        self._down[place.kind] = _Wanted(place, slip, message.envelope, self.clock() + wait)
        return self._taken(place.kind)

    def forget(self, kind: str) -> None:
        """Nobody wants the payload of this kind any more."""
        wanted = self._down.pop(kind, None)
        if wanted is not None:
            self._spool.close(kind, wanted.slip.digest)

    def chunk(self, digest: str, index: int, chunk: bytes) -> Blob | None:
        """A piece came; the payload, if it was the last one."""
        for kind, wanted in self._down.items():
            incoming = self._spool.find(kind, digest)
            if incoming is None:
                continue
            try:
                if incoming.add(index, chunk):
                    self._down[kind] = replace(wanted, pull_at=self.clock() + PATIENCE, attempts=0)
            except OSError as error:
                raise BlobError(f"a chunk found no room on the disk: {error.strerror}") from None
            return self._taken(kind)
        return None

    def connected(self) -> None:
        """Chunks published meanwhile may be lost: ask anew."""
        self._down = {
            kind: replace(w, pull_at=self.clock(), attempts=0) for kind, w in self._down.items()
        }

    def push(self) -> None:
        """Do what is due in both directions."""
        for at, leaving in list(self._up.items()):
            if leaving.sending.pump(self.out) and leaving.asked:
                self.out.publish(leaving.topic, leaving.slip)
                self._up[at] = replace(leaving, asked=False)
        now = self.clock()
        for kind, wanted in list(self._down.items()):
            incoming = self._spool.find(kind, wanted.slip.digest)
            if incoming is None:
                del self._down[kind]
            elif now >= wanted.pull_at:
                self._ask(wanted, incoming.missing())
                wait = min(LONGEST, PATIENCE * 2.0 ** min(wanted.attempts, 10))
                self._down[kind] = replace(wanted, pull_at=now + wait, attempts=wanted.attempts + 1)

    @property
    def due(self) -> float | None:
        """When there is something to push."""
        return min((w.pull_at for w in self._down.values()), default=None)

    def _ask(self, wanted: _Wanted, missing: Sequence[tuple[int, int]]) -> None:
        envelope = replace(wanted.envelope, t="command", agent=self.agent, base=None, method=None)
        body = {"digest": wanted.slip.digest, "missing": [list(pair) for pair in missing]}
        self.out.publish(self.topics.chunk_request(self.agent), wire.encode(envelope, body))

    def _taken(self, kind: str) -> Blob | None:
        wanted = self._down[kind]
        incoming = self._spool.find(kind, wanted.slip.digest)
        payload = None if incoming is None else incoming.payload()
        if payload is None:
            return None
        del self._down[kind]
        self._spool.close(kind, wanted.slip.digest)
        return Blob(wanted.place, payload)
