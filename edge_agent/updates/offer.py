"""A contribution brought to the coordinator by a command, and the fleet's total fetched by one: a
connection until there is an answer.
"""

from __future__ import annotations

import random
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from protofleet import wire
from protofleet.errors import LinkError, WireError
from protofleet.exchange.archive import LARGEST_BUNDLE
from protofleet.mqtt.blobs.descriptor import BlobLimits, descriptor_message, read_ranges
from protofleet.mqtt.blobs.sender import BlobSender, OutgoingBlob
from protofleet.util.logs import Log
from protofleet.wire.codes import UploadStatus

if TYPE_CHECKING:
    from protofleet.member.sealed_link import SealedLink
    from protofleet.mqtt.address import Address
    from protofleet.mqtt.link.events import Arrival
    from protofleet.mqtt.topics import Topics

TOTAL = "total"  # the channel of the fleet's sums
PATIENCE, AGAIN = 10.0, 1.0  # seconds without any answer, and between two sendings of one offer


@dataclass(frozen=True)
class OfferAnswer:
    """What the coordinator made of an offer."""

    status: str
    words: str


class _Sending:
    """One message: whole, or its descriptor and the chunks that the coordinator misses."""

    def __init__(self, payload: bytes, topics: Topics, agent: str) -> None:
        limits, message = BlobLimits(), wire.decode(payload)
        self.digests, self.payload = {message.digest}, payload
        self.sender: BlobSender | None = None
        if not limits.fits(payload):
            blob = OutgoingBlob(payload, limits.chunk)
            digest = blob.descriptor.digest
            self.digests.add(digest)
            self.payload = descriptor_message(message.envelope, blob.descriptor)
            self.sender = BlobSender(blob, lambda n: topics.upload_chunk(agent, digest, n))

    def answer(self, payload: bytes) -> OfferAnswer | None:
        """The coordinator's, if this is the last word; what it misses is on its way then."""
        try:
            message = wire.decode(payload)
        except WireError:
            return None
        # An offer is of round 0, which no training has; where the coordinator could not read it, it
        # has no digest to name.
        body = message.body
        if message.envelope.t != "receipt" or body.get("round") != 0:
            return None
        if body.get("digest") not in self.digests | {""}:
            return None
        if body.get("status") == UploadStatus.MISSING:
            if self.sender is not None:
                chunks = self.sender.blob.descriptor.chunks
                self.sender.want(read_ranges(body.get("missing"), chunks))
            return OfferAnswer("", "")
        return OfferAnswer(str(body.get("status")), str(body.get("words", "")))


def offer(
    payload: bytes, broker: Address, fleet: str, agent: str, *, patience: float = PATIENCE
) -> OfferAnswer:
    """Send it to the coordinator and wait for the receipt."""
    from protofleet.mqtt.topics import Topics, check_name

    topics = Topics(fleet)
    topic = topics.upload(check_name("device", agent), 0)
    sending = _Sending(payload, topics, agent)
    with _connected(broker, agent, [topics.receipt(agent)]) as link:
        end, again = time.monotonic() + patience, 0.0
        while (now := time.monotonic()) < end:
            idle = sending.sender is None or sending.sender.done
            # Receipts may be lost; the same offer gets the same answer.
            if link.connected and now >= again and idle:
                link.publish(topic, sending.payload)
                again = now + AGAIN
            if sending.sender is not None and not idle:
                # All that was asked for has left: does the coordinator miss anything else?
                again = 0.0 if sending.sender.pump(link) else again
            for arrival in _arrivals(link, broker, 0.2 if idle else 0.05):
                answer = sending.answer(arrival.payload)
                if answer is not None and answer.status:
                    return answer
                if answer is not None:  # it is there, and gathers what it misses
                    end = time.monotonic() + patience
    raise LinkError(
        f"no answer from the coordinator of {topics.fleet} in {patience:g} s", "is it running?"
    )


def fetched_total(
    broker: Address, fleet: str, agent: str, *, patience: float = PATIENCE
) -> bytes | None:
    """The sums that the fleet's classes were made of; None if nothing of them came in time."""
    from protofleet.mqtt.blobs.receiver import device_receiver
    from protofleet.mqtt.topics import Topics

    topics = Topics(fleet)
    own_chunks = f"{topics.prefix}/d/{agent}/blob/+/+"
    with (
        TemporaryDirectory(prefix="protofleet-") as folder,
        _connected(broker, agent, [topics.proto(TOTAL), own_chunks]) as link,
    ):
        receiver = device_receiver(
            topics, agent, Path(folder), link, time.monotonic, LARGEST_BUNDLE
        )
        end = time.monotonic() + patience
        while time.monotonic() < end:
            for arrival in _arrivals(link, broker, 0.1):
                end = time.monotonic() + patience
                place = topics.parse(arrival.topic)
                if place is None or not arrival.payload:
                    continue
                if place.kind == "own_chunk":
                    blob = receiver.chunk(place, arrival.payload)
                elif wire.unseal(arrival.payload)[0].t == "slip":
                    blob = receiver.announce(place, wire.decode(arrival.payload))
                else:
                    return arrival.payload
                if blob is not None:
                    # A total is larger than a message may be, so it came as a file.
                    return blob.payload if blob.file is None else blob.file.read_bytes()
            if link.connected:
                receiver.ask_due()
    return None


@contextmanager
def _connected(broker: Address, agent: str, topics: list[str]) -> Iterator[SealedLink]:
    """A connection beside the device's own, for a while."""
    from protofleet.member import membership
    from protofleet.member.sealed_link import sealed_link
    from protofleet.mqtt.link.link import LinkSettings
    from protofleet.trust.sequence import COMMAND

    link = sealed_link(
        broker,
        f"{agent[:40]}-enrol-{secrets.token_hex(4)}",
        LinkSettings(clean_start=True, session_expiry=0),
        (membership.of_address(broker), COMMAND),
        Log(sys.stderr),
        random.Random(),
    )
    link.subscribe([(topic, 1) for topic in topics])
    link.start()
    try:
        yield link
    finally:
        link.stop(patience=1.0)


def _arrivals(link: SealedLink, broker: Address, seconds: float) -> Iterator[Arrival]:
    """What comes in that time; an error if nobody lets us in."""
    from protofleet.mqtt.link.events import Arrival, Refused

    for event in link.poll(seconds):
        if isinstance(event, Refused):
            raise LinkError(f"{broker} refuses this device: {event.reason}")
        if isinstance(event, Arrival):
            link.ack(event)
            yield event
