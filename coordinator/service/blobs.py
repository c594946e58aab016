"""Between the link and the core: what is too large for a packet leaves as a slip with chunks, and
comes in that way.

Everything retained goes out under its topic; of the newest large payload of each topic the bytes
are kept, for devices that ask, and of bundles on a shelf. Chunks that arrive are taken only for
slips that were announced, into a bounded spool on disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from protofleet import wire
from protofleet.errors import BlobError, LinkBusy, WireError
from protofleet.mqtt.blobs.descriptor import (
    BlobDescriptor,
    BlobLimits,
    Ranges,
    read_ranges,
    slip_message,
)
from protofleet.mqtt.blobs.sender import BlobSender, OutgoingBlob
from protofleet.mqtt.blobs.store import BlobStore
from protofleet.mqtt.link.events import Publication, Ticket
from protofleet.mqtt.topics import TopicParts, Topics
from protofleet.wire import Message

EXPIRY = 600.0  # seconds without news after which a half-received upload is forgotten
SPOOL = 1 << 30  # bytes of half-received uploads, all together

LONGEST_SLIP = 1024

Missing = Callable[[str, int, str, Ranges], Publication]  # the receipt that asks for chunks
Shelf = Callable[[str], bytes | None]  # what is kept under a sha256, for devices that ask


class BlobLink(Protocol):
    """As much of a link as the post needs."""

    def publish(
        self, topic: str, payload: bytes, *, qos: int = 1, retain: bool = False, tell: bool = False
    ) -> Ticket: ...


@dataclass(frozen=True)
class Blob:
    """A large payload, put together again, and the place it belongs in."""

    place: TopicParts
    payload: bytes


class BlobServer:
    """What is under way in either direction."""

    def __init__(
        self,
        link: BlobLink,
        topics: Topics,
        limits: BlobLimits,
        spool: Path,
        missing: Missing,
        clock: Callable[[], float],
        shelf: Shelf = lambda digest: None,
    ) -> None:
        self._link, self._topics, self._limits, self._missing = link, topics, limits, missing
        self._shelf = shelf
        self._spool = BlobStore(
            spool, largest=limits.largest, total=SPOOL, expiry=EXPIRY, clock=clock
        )
        self._large: dict[str, OutgoingBlob] = {}  # by topic: the newest only
        self._sendings: dict[
            tuple[str, str], BlobSender
        ] = {}  # by receiver ("" for all) and digest
        self._waiting: deque[Publication] = deque()
        self._awaited: dict[tuple[str, str], TopicParts] = {}

    def send(self, said: Sequence[Publication]) -> None:
        """Publish, in order; what the link has no room for waits here."""
        self._waiting.extend(self._fitted(p) for p in said)
        self.pump()

    def pump(self) -> None:
        """Go on with what waits and with chunks that are due."""
        while self._waiting:
            first = self._waiting[0]
            try:
                self._link.publish(first.topic, first.payload, qos=first.qos, retain=first.retain)
            except LinkBusy:
                return
            self._waiting.popleft()
        for key in [key for key, sending in self._sendings.items() if sending.pump(self._link)]:
            del self._sendings[key]

    def sweep(self) -> None:
        """Forget transfers that nobody goes on with."""
        self._spool.sweep()

    def pushed(self, place: TopicParts, payload: bytes) -> Blob | None:
        """A chunk from a device; the whole upload once it is there."""
        agent, (digest, number) = str(place.agent), place.rest
        incoming, awaited = self._spool.find(agent, digest), self._awaited.get((agent, digest))
        if incoming is None or awaited is None:
            return None
        incoming.add(int(number), payload)
        return self._finished(agent, digest, awaited)

    def slip(self, place: TopicParts, message: Message) -> Blob | None:
        """A device announces a large upload: ask for what is missing of it, or take it out."""
        agent, round = str(place.agent), int(place.rest[0])
        slip = BlobDescriptor.from_body(message.body)
        incoming = self._spool.open(agent, slip)
        for stale in [key for key in self._awaited if key[0] == agent and key[1] != slip.digest]:
            del self._awaited[stale]
            self._spool.close(*stale)
        self._awaited[agent, slip.digest] = place
        if incoming.complete and (whole := self._finished(agent, slip.digest, place)) is not None:
            return whole
        self.send([self._missing(agent, round, slip.digest, incoming.missing())])
        return None

    def requested(self, place: TopicParts, payload: bytes) -> None:
        """A device asks for chunks of something we said."""
        try:
            body = wire.decode(payload).body
            wanted = self._offered(str(body.get("digest")))
            if wanted is None or place.agent is None:
                return
            ranges = read_ranges(body.get("missing"), wanted.slip.chunks)
        except (WireError, BlobError, AttributeError):
            return
        agent, digest = place.agent, wanted.slip.digest
        sending = self._sendings.get((agent, digest))
        if sending is None:
            sending = BlobSender(
                wanted, lambda i: self._topics.own_chunk(agent, digest, i), self._limits.window
            )
            self._sendings[agent, digest] = sending
        sending.want(ranges)
        self.pump()

    def _offered(self, digest: str) -> OutgoingBlob | None:
        """What goes under this name: on its way to somebody already, said by us, or on the
        shelf.
        """
        under_way = (sending.parcel for sending in self._sendings.values())
        said = next(
            (o for o in (*under_way, *self._large.values()) if o.slip.digest == digest), None
        )
        if said is not None:
            return said
        kept = self._shelf(digest)
        return None if kept is None else OutgoingBlob(kept, self._limits.chunk)

    def _finished(self, agent: str, digest: str, place: TopicParts) -> Blob | None:
        incoming = self._spool.find(agent, digest)
        payload = incoming.payload() if incoming is not None else None
        if payload is None:
            return None
        del self._awaited[agent, digest]
        self._spool.close(agent, digest)
        return Blob(place, payload)

    def _fitted(self, said: Publication) -> Publication:
        if self._limits.fits(said.payload):
            self._large.pop(said.topic, None)
            return said
        outgoing = OutgoingBlob(said.payload, self._limits.chunk)
        known = self._large.get(said.topic)
        if known is None or known.slip.digest != outgoing.slip.digest:
            self._large[said.topic] = outgoing
            if said.topic == self._topics.shared_state:
                self._broadcast(outgoing)
        envelope, _ = wire.unseal(said.payload)
        return Publication(said.topic, slip_message(envelope, outgoing.slip), said.qos, said.retain)

    def _broadcast(self, outgoing: OutgoingBlob) -> None:
        """Every chunk once to all; who misses some asks for them."""
        digest = outgoing.slip.digest
        sending = BlobSender(
            outgoing, lambda i: self._topics.shared_chunk(digest, i), self._limits.window
        )
        sending.want(outgoing.slip.whole())
        self._sendings = {key: s for key, s in self._sendings.items() if key[0]} | {
            ("", digest): sending
        }


def is_slip(payload: bytes) -> bool:
    """Whether a message stands in for a large one; uploads themselves are not looked at twice for
    it.
    """
    return len(payload) <= LONGEST_SLIP and wire.unseal(payload)[0].t == "slip"
