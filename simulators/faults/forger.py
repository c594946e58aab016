"""Somebody who has the broker to himself, in a fleet whose words are signed: he hears everything,
says anything anywhere, and has no key that counts.

What he says is drawn from what he heard: words without their signature, under his own, under
another fleet's of the same name, in another place, and old ones.
"""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator.members.office import Office
from protofleet import wire
from protofleet.mqtt.address import Address
from protofleet.mqtt.link.events import Arrival
from protofleet.mqtt.link.link import Link, LinkSettings
from protofleet.mqtt.topics import Topics
from protofleet.trust import cose, keys, sealing
from protofleet.trust.sealing import HASHED, NUMBER, SHA256, Signer
from protofleet.trust.sequence import DAEMON, Sequence
from protofleet.wire import Envelope
from simulators.faults.bundle_mutations import manifest, packed, sound
from simulators.faults.intruder import CHUNK

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

FAR = 2**62  # a number above all that anybody gave out


class FalseWord(NamedTuple):
    """What is said where, and which attack it is."""

    attack: str
    topic: str
    payload: bytes


@dataclass(frozen=True)
class OtherFleet:
    """A fleet of the same name under another authority, whose keys he has."""

    office: Office
    signer: Signer

    @staticmethod
    def of_folder(folder: Path, fleet: str) -> OtherFleet:
        """Made for the purpose."""
        office = Office(folder, fleet, time.time)
        return OtherFleet(office, Signer(office.key, Sequence(folder / "numbers", DAEMON)))

    def close(self) -> None:
        """His files may be removed."""
        self.office.close()
        self.signer.sequence.close()


class Forger:
    """One connection that hears all of a fleet's topics."""

    def __init__(self, url: str, fleet: str, folder: Path) -> None:
        self.topics = Topics(fleet)
        self.heard: dict[str, list[bytes]] = {}  # by topic, each word once, the oldest first
        self.other = OtherFleet.of_folder(folder, fleet)
        self._key = keys.new()
        settings = LinkSettings(clean_start=True, session_expiry=0)
        name = f"forger-{secrets.token_hex(4)}"
        self._link = Link(Address.parse(url), name, settings, rng=random.Random(0))
        self._link.subscribe([(f"{self.topics.prefix}/#", 1)])
        self._said: set[bytes] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._link.start()
        self._thread.start()

    def leave(self) -> None:
        """No more of him."""
        self._stop.set()
        self._link.wake()
        self._thread.join(5.0)
        self._link.stop(patience=1.0)
        self.other.close()

    def say(self, word: FalseWord) -> None:
        """Retained: it takes the place of what was there."""
        self._said.add(word.payload)
        self._link.publish(word.topic, word.payload, retain=True)

    def words(self, topic: str) -> list[bytes]:
        """What was said there by those who may, the oldest first."""
        return list(self.heard.get(topic, []))

    def newest(self, topic: str) -> bytes:
        """The last of it, without its signature."""
        return sealing.stripped(self.words(topic)[-1])

    # his words

    def of_the_fleet(self, agents: list[str]) -> Iterator[FalseWord]:
        """What devices are told: each a lie that would count if it were believed."""
        topics = self.topics
        for attack, topic, message in (
            ("a false coordinator", topics.coordinator_state, self._state()),
            ("a false round", topics.round, self._round()),
            ("a false state", topics.shared_state, self._shared()),
            ("false prototypes", topics.proto("stable"), self._prototypes()),
            ("a false bundle", topics.bundle("stable"), self._bundle()),
        ):
            yield from self._under_all_keys(attack, topic, message)
            # What was true once, and what is true elsewhere.
            if len(old := self.words(topic)) > 1:
                yield FalseWord("an old word", topic, old[0])
            yield FalseWord("another topic's word", topic, self._elsewhere(topic))
        for agent in agents:
            topic = topics.receipt(agent)
            yield from self._under_all_keys("a false receipt", topic, self._receipt(agent))
            if len(old := self.words(topic)) > 1:
                yield FalseWord("an old receipt", topic, old[0])
            others = [self.words(topics.receipt(other)) for other in agents if other != agent]
            yield from (FalseWord("another's receipt", topic, one[-1]) for one in others[:1] if one)

    def of_keys(self) -> Iterator[FalseWord]:
        """The fleet's keys, as another authority signs them."""
        yield FalseWord("other keys", self.topics.keys, self.other.office.signed_ring)

    def of_devices(self, agents: list[str]) -> Iterator[FalseWord]:
        """What the coordinator is told in devices' names."""
        for agent, other in zip(agents, [*agents[1:], agents[0]], strict=True):
            born = self.topics.state(agent)
            yield from self._under_all_keys("a false death", born, self._death(agent))
            sent = [t for t in self.heard if t.startswith(self.topics.upload(agent, 0)[:-1])]
            for topic in sorted(sent)[-1:]:
                message = sealing.stripped(self.words(topic)[-1])
                yield from self._under_all_keys("a false upload", topic, message)
                place = self.topics.upload(other, int(topic.rpartition("/")[2]))
                yield FalseWord("another's upload", place, self.words(topic)[-1])

    def removals(self) -> Iterator[FalseWord]:
        """What is retained, taken away."""
        topics = self.topics
        for topic in (
            topics.round,
            topics.shared_state,
            topics.keys,
            topics.proto("stable"),
            topics.bundle("stable"),
        ):
            yield FalseWord("a removal", topic, b"")

    def _under_all_keys(self, attack: str, topic: str, message: bytes) -> Iterator[FalseWord]:
        yield FalseWord(f"{attack}, unsigned", topic, message)
        yield FalseWord(f"{attack}, under a key of his own", topic, self._sealed(topic, message))
        named = self._sealed(topic, message, self._name_at(topic))
        yield FalseWord(f"{attack}, under a key that he has not", topic, named)
        theirs = self.other.signer.seal(topic, message)
        yield FalseWord(f"{attack}, of another fleet of this name", topic, theirs)

    def _sealed(self, topic: str, message: bytes, name: bytes = b"") -> bytes:
        """Under his own key, whatever it is called."""
        key: Ed25519PrivateKey = self._key
        own = keys.name(keys.raw(key.public_key()))
        headers: dict[int, Any] = {cose.KEY_ID: name or own, HASHED: SHA256, NUMBER: FAR}
        digest = sha256(message).digest()
        return cose.sign(key, headers, topic.encode(), digest, detached=True) + message

    def _name_at(self, topic: str) -> bytes:
        """What those who may speak there call their key."""
        return sealing.taken_apart(self.words(topic)[-1]).key

    def _elsewhere(self, topic: str) -> bytes:
        others = (self.topics.round, self.topics.shared_state)
        return self.words(others[0] if topic == others[1] else others[1])[-1]

    # what is in them

    def _envelope(self, topic: str, **changes: Any) -> tuple[Envelope, bytes]:
        envelope, body = wire.unseal(self.newest(topic))
        return replace(envelope, epoch=(envelope.epoch or 0) + 1000, **changes), body

    def _state(self) -> bytes:
        return wire.enclose(*self._envelope(self.topics.coordinator_state, boot="f" * 16))

    def _round(self) -> bytes:
        envelope, body = self._envelope(self.topics.round)
        return wire.enclose(replace(envelope, round=(envelope.round or 0) + 1000), body)

    def _shared(self) -> bytes:
        return wire.enclose(*self._envelope(self.topics.shared_state, round=999))

    def _prototypes(self) -> bytes:
        # Of another bundle: whoever believed it would fetch that.
        files = sound("extractor:false")
        envelope, _ = self._envelope(self.topics.proto("stable"))
        return wire.enclose(envelope, wire.unseal(files["prototypes.cbor"])[1])

    def _bundle(self) -> bytes:
        files = sound("extractor:false")
        data = packed(files, manifest(files, "extractor:false"))
        body = {"digest": sha256(data).hexdigest(), "size": len(data), "chunk": CHUNK}
        envelope, _ = self._envelope(self.topics.bundle("stable"))
        return wire.encode(envelope, {**body, "of": "bundle", "bundle": "f" * 64})

    def _receipt(self, agent: str) -> bytes:
        # The answer to what the device is about to send.
        topic = self.topics.receipt(agent)
        envelope, _ = wire.unseal(self.newest(topic))
        number = (envelope.round or 0) + 1
        body = {"digest": "", "round": number, "status": "refused"}
        return wire.encode(replace(envelope, round=number), body)

    def _death(self, agent: str) -> bytes:
        envelope, _ = wire.unseal(self.newest(self.topics.state(agent)))
        return wire.encode(envelope, {"online": False, "reason": "left"})

    def _listen(self) -> None:
        while not self._stop.is_set():
            for event in self._link.poll(0.2):
                if isinstance(event, Arrival):
                    if event.payload and event.payload not in self._said:
                        words = self.heard.setdefault(event.topic, [])
                        if event.payload not in words:
                            words.append(event.payload)
                    self._link.ack(event)
