"""A ledger that does what a test says, over a real broker: it publishes a bundle, a state and a
total, gathers what a device sends, and answers as it is told.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from edge_agent.inference.bundle import open_bundle
from protofleet import wire
from protofleet.contract import Contract, Input
from protofleet.exchange import archive, contributed, learned, published
from protofleet.exchange.contributed import Claim
from protofleet.exchange.published import About, Bank
from protofleet.exchange.state import GlobalState
from protofleet.mqtt.blobs.descriptor import BlobDescriptor, descriptor_message
from protofleet.mqtt.blobs.sender import OutgoingBlob
from protofleet.mqtt.blobs.store import IncomingBlob
from protofleet.mqtt.topics import Topics
from protofleet.values.prototypes import Prototypes
from protofleet.wire import Envelope
from tests.edge_agent.scripted import listening


@dataclass
class ScriptedLedger:
    """Answers every contribution with `status`; asks for chunks of what comes as a slip."""

    port: int
    folder: Path
    run: str = "r"
    status: str = "accepted"
    chunk: int = 4096
    messages: list[Any] = field(default_factory=list)  # what `contributed.read` makes of them
    published: int = 0  # bytes on upload topics and chunks of them
    blobs: dict[str, OutgoingBlob] = field(default_factory=dict)
    incoming: dict[str, IncomingBlob] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.topics = Topics("f")
        self.client = listening(self.port, self.topics, self._take)

    def stop(self) -> None:
        self.client.loop_stop()
        self.client.disconnect()

    def bundle(self, path: Path) -> None:
        """This is the fleet's extractor."""
        opened, data = open_bundle(path), archive.packed_bytes(path)
        self.name, self.lineage = opened.digest, opened.manifest.lineages[0]
        self.width = opened.manifest.embedding
        blob = self._blob(data)
        body = {**blob.descriptor.body(), "of": "bundle", "bundle": self.name}
        self._say(self.topics.bundle("stable"), wire.encode(self._envelope("slip"), body))
        self.announce()

    def announce(self) -> None:
        """How this run is spoken to, as a coordinator says it before there is any round."""
        kind = Input("image", (8, 8, 3), (0.5,) * 3, (0.5,) * 3)
        contract = Contract("f", self.run, 0, ("a",), kind, self.width)
        body = {
            "phase": "closed",
            "contract": contract.announced(),
            "hyper": {},
            "participants": None,
            "base_round": 0,
            "own": False,
            "talks": False,
            "deadline": 60.0,
            "quorum": 0.8,
            "packet": 131_072,
            "staleness": 0,
        }
        envelope = self._envelope("round", base=GlobalState().base)
        self._say(self.topics.round, wire.encode(envelope, body))

    def state(self, bank: Bank | None = None, **about: Any) -> None:
        """The channel's state; by default no class at all."""
        if bank is None:
            import numpy as np

            nothing = Prototypes(np.zeros(0, np.int64), np.zeros((0, self.width), np.float32))
            bank = Bank(About(self.lineage, (), self.name, **about), nothing)
        payload = published.write(bank, self._envelope("global"), "float32")
        self._say(self.topics.proto("stable"), payload)

    def total(self, of: Any, names: tuple[str, ...], name: str) -> bytes:
        """The sums to count against, as a slip."""
        state, _ = learned.state(of)
        envelope = self._envelope("global", base=name)
        payload = contributed.write_total(
            Claim(self.lineage, names, total=name), state.shared, envelope
        )
        blob = self._blob(payload)
        self._say(self.topics.proto("total"), descriptor_message(envelope, blob.descriptor))
        return payload

    def of(self, kind: type) -> list[Any]:
        return [message for message in self.messages if isinstance(message, kind)]

    def _blob(self, data: bytes) -> OutgoingBlob:
        blob = OutgoingBlob(data, self.chunk)
        self.blobs[blob.descriptor.digest] = blob
        return blob

    def _envelope(self, t: str, **more: Any) -> Envelope:
        return Envelope(t, "f", self.run, epoch=1, round=0, method="fleet", **more)

    def _say(self, topic: str, payload: bytes, retain: bool = True) -> None:
        self.client.publish(topic, payload, 1, retain)

    def _take(self, topic: str, payload: bytes) -> None:
        place = self.topics.parse(topic)
        if place is None or place.agent is None:
            return
        if place.kind == "upload":
            self.published += len(payload)
            self._uploaded(place.agent, payload)
        elif place.kind == "upload_chunk":
            self.published += len(payload)
            incoming = self.incoming[place.rest[0]]
            incoming.add(int(place.rest[1]), payload)
        elif place.kind == "chunk_request":
            body = wire.decode(payload).body
            blob = self.blobs[body["digest"]]
            for first, last in body["missing"]:
                for index in range(first, last + 1):
                    chunk = self.topics.own_chunk(place.agent, body["digest"], index)
                    self._say(chunk, blob.chunk(index), retain=False)

    def _uploaded(self, agent: str, payload: bytes) -> None:
        envelope, body = wire.unseal(payload)
        digest, missing = sha256(body).hexdigest(), []
        if envelope.t == "slip":
            descriptor = BlobDescriptor.from_body(wire.decode(payload).body)
            digest = descriptor.digest
            incoming = self.incoming.setdefault(
                digest, IncomingBlob(self.folder / digest, descriptor, time.monotonic)
            )
            missing = [list(pair) for pair in incoming.missing()]
            whole = incoming.payload()
            payload = b"" if whole is None else whole
        status = "missing" if missing else self.status
        if not missing:
            self.messages.append(contributed.read(payload))
        reply = {"digest": digest, "round": 0, "status": status, "reason": "", "words": "no"}
        reply |= {"missing": missing} if missing else {}
        self._say(
            self.topics.receipt(agent),
            wire.encode(self._envelope("receipt", agent=agent), reply),
            retain=False,
        )
