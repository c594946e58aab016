"""A link on which all that this device says is signed, and nothing arrives that its fleet did not
say.

It stands in a `Link`'s place: whoever holds it publishes and polls as ever.
"""

# Theory of operation
#
#   outgoing                       what is done
#   a message                      sealed with the device's key (`protofleet.trust.sealing`)
#   a chunk, an empty payload      as it is: what announced the chunk was signed
#   the will                       sealed for each connection anew: each is true once
#   a request for a certificate    as it is: its own signature is in it
#   what is for home automation    as it is: nobody there could hold a signature to anything
#
#   arriving                       what is done
#   a message of the fleet's key   handed on, without its signature
#   a chunk, an answer of the      handed on: bound by a digest, or signed by the authority itself
#   authority's
#   the fleet's keys               held to the authority, kept if they are newer; then all topics
#                                  are asked for again, as what a new key signed may have come
#                                  before it
#   an empty payload               dropped: nobody says that a retained message is gone but a broker
#   anything else                  acknowledged, dropped, and one line in the log
#
# Numbers are remembered over restarts (`heard-LANE.json`), so an old word of the fleet's is an old
# word in the next life, too. Of receipts only in memory: who says one again says what is true.
#
# A device that joined no fleet cannot hold a signature to anything: it takes signatures off, and
# goes by what it is told, as it would without them.

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from protofleet.errors import TrustError
from protofleet.member.membership import FleetMember
from protofleet.mqtt.address import Address
from protofleet.mqtt.link.events import Arrival, Event, LinkSettings, Publication, Ticket, Will
from protofleet.mqtt.link.link import Link
from protofleet.mqtt.link.reconnect import Backoff
from protofleet.mqtt.topics import OF_HOMES, Topics
from protofleet.trust import certificates, keys, sealing, sequence
from protofleet.trust import ring as rings
from protofleet.trust.sealing import Gate, Signer
from protofleet.trust.sequence import DAEMON, WILL, Numbers
from protofleet.util.files import OWN_FILE, write_whole
from protofleet.util.logs import Log

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

# What is bound otherwise than by the fleet's key, in either direction.
AS_IT_IS = OF_HOMES | {
    "shared_chunk",
    "own_chunk",
    "upload_chunk",
    "renewal",
    "certificate",
    "ask",
    "answer",
}


class Voice:
    """What a member speaks and listens with, on one lane."""

    def __init__(self, member: FleetMember, lane: int) -> None:
        self.member, self.topics = member, Topics(member.fleet)
        self._authority = certificates.key_of(certificates.of_pem(member.authority))
        data = member.ring.read_bytes()
        self.ring = rings.read(data, self._authority, self.topics.keys, member.fleet)
        self._public = self.ring.public()
        self._path = member.folder / f"heard-{lane}.json"
        self.gate = Gate(self, Numbers(self._remembered()))
        key = keys.read(member.key)
        lanes = (lane, WILL) if lane == DAEMON else (lane,)
        self._sequences = [sequence.Sequence(member.folder, number) for number in lanes]
        self._signers = {s.lane: Signer(key, s) for s in self._sequences}
        self._lane = lane

    def close(self) -> None:
        """Another process may speak."""
        for numbers in self._sequences:
            numbers.close()

    def keys(self, speaker: str) -> Mapping[bytes, Ed25519PublicKey]:
        """The fleet's: nobody else speaks to a device."""
        return self._public

    def required(self, speaker: str) -> bool:
        """Whoever joined takes nothing unsigned."""
        return True

    def seal(self, topic: str, payload: bytes, *, will: bool = False) -> bytes:
        """As it goes out."""
        place = self.topics.parse(topic)
        if not payload or place is None or place.kind in AS_IT_IS:
            return payload
        return self._signers[WILL if will else self._lane].seal(topic, payload)

    def open(self, topic: str, payload: bytes) -> bytes | None:
        """The message; None if there is nothing in it for anybody."""
        place = self.topics.parse(topic)
        if not payload or place is None:
            return None
        if place.kind in AS_IT_IS:
            return payload
        return self.gate.open("", topic, topic, payload).message

    def take_ring(self, payload: bytes) -> bool:
        """Whether these keys of the fleet are newer than ours: then they are ours."""
        ring = rings.read(payload, self._authority, self.topics.keys, self.member.fleet)
        if ring.version < self.ring.version:
            raise TrustError(f"ring: version {ring.version}, we have {self.ring.version}")
        if ring.version == self.ring.version:
            return False
        write_whole(self.member.ring, payload, mode=OWN_FILE)
        self.ring, self._public = ring, ring.public()
        return True

    def remember(self) -> None:
        """Write down what was heard, before anybody acts on it."""
        fresh = self.gate.numbers.fresh
        if any(not place.endswith("/rcpt") for _, place in fresh):
            # Retained words come again with each start: what is written is what they are held to.
            highest = {**self._remembered(), **fresh}
            document = {place: number for (_, place), number in highest.items()}
            write_whole(self._path, json.dumps(document).encode(), mode=OWN_FILE)
            fresh.clear()

    def _remembered(self) -> dict[tuple[str, str], int]:
        try:
            document = json.loads(self._path.read_text())
            return {("", str(place)): int(number) for place, number in document.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, AttributeError) as error:
            raise TrustError(f"{self._path} is damaged", "remove it to begin anew") from error


class SealedLink:
    """A `Link` in everything but that."""

    def __init__(self, link: Link, voice: Voice | None, log: Log) -> None:
        self._link, self.voice, self._log = link, voice, log
        self._filters: dict[str, int] = {}

    @property
    def address(self) -> Address:
        return self._link.address

    @property
    def connected(self) -> bool:
        return self._link.connected

    @property
    def pending(self) -> int:
        return self._link.pending

    @property
    def dropped(self) -> int:
        return self._link.dropped

    def start(self) -> None:
        self._link.start()

    def wake(self) -> None:
        self._link.wake()

    def ack(self, *arrivals: Arrival) -> None:
        self._link.ack(*arrivals)

    def together(self) -> AbstractContextManager[None]:
        return self._link.together()

    def stop(self, farewell: Sequence[Publication] = (), patience: float = 5.0) -> None:
        last = [p._replace(payload=self._sealed(p.topic, p.payload)) for p in farewell]
        self._link.stop(last, patience)
        if self.voice is not None:
            self.voice.close()

    def subscribe(self, filters: Iterable[tuple[str, int]]) -> None:
        added = list(filters)
        if self.voice is not None and not self._filters:
            # Before all others: a broker sends what is retained in the order that is asked for.
            added = [*self.voice.topics.for_member(self.voice.member.name), *added]
        self._filters |= dict(added)
        self._link.subscribe(added)

    def publish(self, topic: str, payload: bytes, **how: Any) -> Ticket:
        return self._link.publish(topic, self._sealed(topic, payload), **how)

    def poll(self, timeout: float | None) -> list[Event]:
        events = list(self._opened(self._link.poll(timeout)))
        if self.voice is not None:
            self.voice.remember()
        return events

    def _sealed(self, topic: str, payload: bytes) -> bytes:
        return payload if self.voice is None else self.voice.seal(topic, payload)

    def _opened(self, events: list[Event]) -> Iterator[Event]:
        for event in events:
            if not isinstance(event, Arrival):
                yield event
                continue
            try:
                message = self._believed(event)
            except TrustError as error:
                self._log.warning(f"nobody stands for it: {error}", topic=event.topic)
                message = None
            if message is None:
                self._link.ack(event)
            else:
                yield event._replace(payload=message)

    def _believed(self, arrival: Arrival) -> bytes | None:
        topic, payload = arrival.topic, arrival.payload
        if self.voice is None:
            return sealing.stripped(payload)
        if topic != self.voice.topics.keys:
            return self.voice.open(topic, payload)
        if payload and self.voice.take_ring(payload):
            version = self.voice.ring.version
            self._log.info("the fleet has other keys", version=version)
            self._link.subscribe(self._filters.items())
        return None


def sealed_link(
    address: Address,
    name: str,
    settings: LinkSettings,
    speaker: tuple[FleetMember | None, int],
    log: Log,
    rng: random.Random,
    backoff: Backoff | None = None,
) -> SealedLink:
    """A link for who joined a fleet, on this lane, or for who did not."""
    member, lane = speaker
    voice, will = None if member is None else Voice(member, lane), settings.will
    if voice is not None and isinstance(will, Will):
        last_words: Will = will

        def sealed_will() -> Will:
            return replace(
                last_words, payload=voice.seal(last_words.topic, last_words.payload, will=True)
            )

        settings = replace(settings, will=sealed_will)
    return SealedLink(Link(address, name, settings, rng=rng, backoff=backoff), voice, log)
