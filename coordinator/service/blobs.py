"""Between the link and the core: what is too large for a packet leaves as a descriptor with chunks,
and comes in that way.

Everything retained goes out under its topic; of the newest large payload of each topic the bytes
are kept, for devices that ask, and of bundles on a shelf. Chunks that arrive are taken only for
what was announced, into a bounded store on disk. The protocol is told in
`protofleet.mqtt.blobs.receiver`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from coordinator.allowance import Allowance
from protofleet import wire
from protofleet.errors import BlobError, LinkBusy, WireError
from protofleet.mqtt.blobs.descriptor import (
    BlobLimits,
    Ranges,
    descriptor_message,
    read_ranges,
)
from protofleet.mqtt.blobs.receiver import Blob, BlobReceiver, ExpectedBlob
from protofleet.mqtt.blobs.sender import BlobSender, OutgoingBlob
from protofleet.mqtt.blobs.store import BlobStore
from protofleet.mqtt.link.events import Publication, Ticket
from protofleet.mqtt.topics import TopicParts, Topics
from protofleet.wire import Message

EXPIRY = 600.0  # seconds without news after which a half-received upload is forgotten
STORE = 1 << 30  # bytes of half-received uploads, all together
# Bytes. The envelope of a descriptor has names of at most 63 characters and a few hashes; an upload
# is seldom as small, so that nearly all are told apart by their length alone.
LONGEST_DESCRIPTOR = 1024
SHELF = 60.0  # seconds for which what came off the shelf is at hand: to read it costs its hash

Missing = Callable[[str, int, str, Ranges], Publication]  # the receipt that asks for chunks
Seal = Callable[[str, bytes], bytes]  # a message as it goes out on a topic
Shelf = Callable[[str], bytes | None]  # what is kept under a sha256, for devices that ask


class BlobLink(Protocol):
    """As much of a link as is needed here."""

    def publish(
        self, topic: str, payload: bytes, *, qos: int = 1, retain: bool = False, tell: bool = False
    ) -> Ticket: ...


class BlobServer:
    """What is under way in either direction."""

    def __init__(
        self,
        link: BlobLink,
        topics: Topics,
        limits: BlobLimits,
        folder: Path,
        missing: Missing,
        clock: Callable[[], float],
        shelf: Shelf = lambda digest: None,
    ) -> None:
        self.seal: Seal = lambda topic, payload: payload
        self._link, self._topics, self._limits, self._missing = link, topics, limits, missing
        self._shelf, self._clock = shelf, clock
        self._at_hand: tuple[str, OutgoingBlob, float] | None = None  # off the shelf, until when
        self.allowance = Allowance()
        store = BlobStore(folder, largest=limits.largest, total=STORE, expiry=EXPIRY, clock=clock)
        self._receiver = BlobReceiver(store, self._ask, clock)
        self._large: dict[str, OutgoingBlob] = {}  # by topic: the newest only
        # By receiver ("" for all) and digest.
        self._senders: dict[tuple[str, str], BlobSender] = {}
        self._waiting: deque[Publication] = deque()

    def send(self, publications: Sequence[Publication]) -> None:
        """Publish, in order; what the link has no room for waits here."""
        self._waiting.extend(self._fitted(p) for p in publications)
        self.pump()

    def pump(self) -> None:
        """Go on with what waits and with chunks that are due."""
        while self._waiting:
            first = self._waiting[0]
            try:
                payload = self.seal(first.topic, first.payload)
                self._link.publish(first.topic, payload, qos=first.qos, retain=first.retain)
            except LinkBusy:
                return
            self._waiting.popleft()
        for key in [key for key, sender in self._senders.items() if sender.pump(self._link)]:
            del self._senders[key]

    def sweep(self) -> None:
        """Forget transfers that nobody goes on with."""
        self._receiver.sweep()
        if self._at_hand is not None and self._clock() >= self._at_hand[2]:
            self._at_hand = None

    def chunk(self, parts: TopicParts, payload: bytes) -> Blob | None:
        """A chunk from a device; the whole upload once it is there."""
        if not self.allowance.spend("chunk", str(parts.agent), self._clock()):
            return None  # what is missing of an upload is asked for
        owners = (_owner(parts.agent, offer=offer) for offer in (False, True))
        blobs = (self._receiver.chunk(parts, payload, owner) for owner in owners)
        return next((blob for blob in blobs if blob is not None), None)

    def announced(self, parts: TopicParts, message: Message) -> Blob | None:
        """A device announces a large upload: ask for what is missing of it, or take it out."""
        if not self.allowance.spend("announce", str(parts.agent), self._clock()):
            return None  # each is two files and an answer
        owner = _owner(parts.agent, offer=parts.rest == ("0",))
        blob = self._receiver.announce(parts, message, owner)
        if blob is None:
            self._receiver.ask(owner)
        return blob

    def _ask(self, expected: ExpectedBlob, missing: Ranges) -> None:
        agent, round = str(expected.parts.agent), int(expected.parts.rest[0])
        self.send([self._missing(agent, round, expected.descriptor.digest, missing)])

    def requested(self, parts: TopicParts, payload: bytes) -> None:
        """A device asks for chunks of something we said; it asks again for what it does not get."""
        now = self._clock()
        if not self.allowance.spend("request", str(parts.agent), now):
            return
        try:
            body = wire.decode(payload).body
            blob = self._offered(str(body.get("digest")))
            if blob is None or parts.agent is None:
                return
            ranges = read_ranges(body.get("missing"), blob.descriptor.chunks)
        except (WireError, BlobError, AttributeError):
            return
        agent, digest = parts.agent, blob.descriptor.digest
        size = blob.descriptor.chunk * sum(last - first + 1 for first, last in ranges)
        if not self.allowance.spend("bytes", agent, now, size):
            return
        sender = self._senders.get((agent, digest))
        if sender is None:
            sender = BlobSender(
                blob, lambda i: self._topics.own_chunk(agent, digest, i), self._limits.window
            )
            self._senders[agent, digest] = sender
        sender.want(ranges)
        self.pump()

    def _offered(self, digest: str) -> OutgoingBlob | None:
        """What goes under this name: on its way to somebody already, said by us, or on the
        shelf.
        """
        under_way = (sender.blob for sender in self._senders.values())
        blob = next(
            (b for b in (*under_way, *self._large.values()) if b.descriptor.digest == digest), None
        )
        if blob is not None:
            return blob
        if self._at_hand is None or self._at_hand[0] != digest:
            payload = self._shelf(digest)
            if payload is None:
                return None
            self._at_hand = digest, OutgoingBlob(payload, self._limits.chunk), 0.0
        blob = self._at_hand[1]
        self._at_hand = digest, blob, self._clock() + SHELF
        return blob

    def _fitted(self, publication: Publication) -> Publication:
        topic, payload, qos, retain = publication
        if self._limits.fits(payload):
            self._large.pop(topic, None)
            return publication
        blob = OutgoingBlob(payload, self._limits.chunk)
        before = self._large.get(topic)
        # The greetings say everything again at each connection: what is the same is not sent to all
        # once more.
        if before is None or before.descriptor.digest != blob.descriptor.digest:
            self._large[topic] = blob
            if topic == self._topics.shared_state:
                self._broadcast(blob)
        envelope, _ = wire.unseal(payload)
        return Publication(topic, descriptor_message(envelope, blob.descriptor), qos, retain)

    def _broadcast(self, blob: OutgoingBlob) -> None:
        """Every chunk once to all; who misses some asks for them."""
        digest = blob.descriptor.digest
        sender = BlobSender(
            blob, lambda i: self._topics.shared_chunk(digest, i), self._limits.window
        )
        sender.want(blob.descriptor.whole())
        # A state that is still going out to all is of no use to anybody any more.
        self._senders = {key: s for key, s in self._senders.items() if key[0]}
        self._senders["", digest] = sender


def _owner(agent: str | None, *, offer: bool) -> str:
    """Whose a transfer is: a device has one upload under way, and one offer of classes."""
    return f"{agent}/0" if offer else str(agent)


def is_descriptor(payload: bytes) -> bool:
    """Whether a message stands in for a large one; uploads themselves are not looked at twice for
    it.
    """
    return len(payload) <= LONGEST_DESCRIPTOR and wire.unseal(payload)[0].t == "slip"
