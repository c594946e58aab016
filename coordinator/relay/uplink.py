"""The link upward: a site's messages, large ones in pieces, and what the fleet above retains, put
together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from protofleet import wire
from protofleet.errors import FleetError, LinkBusy
from protofleet.exchange.archive import LARGEST_BUNDLE
from protofleet.exchange.published import STABLE
from protofleet.mqtt.address import Address
from protofleet.mqtt.blobs.descriptor import BlobLimits, descriptor_message, read_ranges
from protofleet.mqtt.blobs.receiver import Blob, device_receiver
from protofleet.mqtt.blobs.sender import BlobSender, OutgoingBlob
from protofleet.mqtt.link.events import Arrival, Event, Publication, Ticket
from protofleet.mqtt.topics import TopicParts, Topics
from protofleet.util.logs import Log

TOTAL = "total"  # the channel of what is counted against
Retained = tuple[TopicParts, bytes, Path | None]


class SiteLink(Protocol):
    """As much of a link as is needed here: a plain one, or a member's, which signs."""

    @property
    def address(self) -> Address: ...
    @property
    def connected(self) -> bool: ...
    def start(self) -> None: ...
    def stop(self, farewell: Sequence[Publication] = (), patience: float = 5.0) -> None: ...
    def subscribe(self, filters: Iterable[tuple[str, int]]) -> None: ...
    def poll(self, timeout: float | None) -> list[Event]: ...
    def ack(self, *arrivals: Arrival) -> None: ...
    def publish(
        self, topic: str, payload: bytes, *, qos: int = 1, retain: bool = False, tell: bool = False
    ) -> Ticket: ...


@dataclass
class _Outgoing:
    """A large message: its chunks leave as they are asked for."""

    sender: BlobSender
    descriptor: bytes
    topic: str
    asked: bool = False


class Uplink:
    """`packet` is what the broker above takes, once the fleet there has said so."""

    def __init__(
        self,
        link: SiteLink,
        topics: Topics,
        site: str,
        folder: Path,
        log: Log,
        clock: Callable[[], float],
    ) -> None:
        self.link, self.topics, self.site = link, topics, site
        self._log, self.packet = log, 0
        self._receiver = device_receiver(topics, site, folder, link, clock, LARGEST_BUNDLE)
        self._outgoing: _Outgoing | None = None

    @property
    def filters(self) -> list[tuple[str, int]]:
        """What a site listens to: as much as a device is allowed."""
        topics = self.topics
        own = (topics.receipt(self.site), f"{topics.prefix}/d/{self.site}/blob/+/+")
        retained = (
            topics.coordinator_state,
            topics.round,
            topics.shared_state,
            f"{topics.prefix}/g/blob/+/+",
            topics.bundle(STABLE),
            topics.proto(STABLE),
            topics.proto(TOTAL),
        )
        return [(topic, 1) for topic in (*retained, *own)]

    @property
    def digest(self) -> str:
        """The name under which a large message goes; empty for one that went whole."""
        return "" if self._outgoing is None else self._outgoing.sender.blob.descriptor.digest

    def connected(self) -> None:
        """Chunks published meanwhile may be lost."""
        self._receiver.connected()

    def say(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """As far as the link has room; what matters is said again."""
        with suppress(LinkBusy):
            self.link.publish(topic, payload, retain=retain)

    def offer(self, payload: bytes, round: int = 0) -> None:
        """A message for the ledger above, or a round's upload."""
        limits = BlobLimits(self.packet) if self.packet else BlobLimits()
        topic = self.topics.upload(self.site, round)
        if limits.fits(payload):
            self._outgoing = None
            self.say(topic, payload)
            return
        blob = OutgoingBlob(payload, limits.chunk)
        if self.digest != blob.descriptor.digest:
            digest, envelope = blob.descriptor.digest, wire.unseal(payload)[0]
            sender = BlobSender(
                blob, lambda i: self.topics.upload_chunk(self.site, digest, i), limits.window
            )
            descriptor = descriptor_message(envelope, blob.descriptor)
            self._outgoing = _Outgoing(sender, descriptor, topic)
        outgoing = self._outgoing
        assert outgoing is not None  # it was made just now
        if outgoing.sender.done:
            self.say(topic, outgoing.descriptor)

    def missing(self, body: dict[str, Any]) -> None:
        """The coordinator above asks for chunks."""
        outgoing = self._outgoing
        if outgoing is not None and body.get("digest") == self.digest:
            ranges = read_ranges(body.get("missing"), outgoing.sender.blob.descriptor.chunks)
            outgoing.sender.want(ranges)
            outgoing.asked = True

    def settled(self) -> None:
        """Nobody needs its chunks any more."""
        self._outgoing = None

    def push(self) -> None:
        """Do what is due in both directions."""
        outgoing = self._outgoing
        with suppress(LinkBusy):
            if outgoing is not None and outgoing.sender.pump(self.link) and outgoing.asked:
                outgoing.asked = False
                # All that was asked for has left: does the coordinator miss anything else?
                self.link.publish(outgoing.topic, outgoing.descriptor)
            self._receiver.ask_due()

    def opened(self, arrivals: Iterable[Arrival]) -> Iterator[Retained]:
        """What came, whole: with a file in place of the payload where it is large."""
        for arrival in arrivals:
            place = self.topics.parse(arrival.topic)
            if place is None:
                continue
            try:
                blob = self._whole(place, arrival.payload)
            except FleetError as error:
                self._log.warning(f"what came cannot be used: {error}", topic=arrival.topic)
                continue
            if blob is not None:
                yield blob.parts, blob.payload, blob.file

    def fetch(self, place: TopicParts, payload: bytes) -> Blob | None:
        """Gather what this stands for; whole at once where nothing of it is missing."""
        owner = "/".join((place.kind, *place.rest))
        return self._receiver.announce(place, wire.decode(payload), owner)

    def _whole(self, place: TopicParts, payload: bytes) -> Blob | None:
        if place.kind in ("own_chunk", "shared_chunk"):
            return self._receiver.chunk(place, payload)
        # A bundle is always a slip, and which one it is decides whether it is fetched at all.
        large = place.kind in ("proto", "shared_state")
        if large and payload and wire.unseal(payload)[0].t == "slip":
            return self.fetch(place, payload)
        return Blob(place, payload)
