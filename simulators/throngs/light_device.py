"""A device that weighs next to nothing: one plain socket, what it has to say drawn from its name,
and the rules by which a real one says it.

A real device is a process of forty megabytes, so ten thousand of them are no single machine's. To a
broker and a coordinator these look alike: a session, a will and a retained birth, every
subscription of a real device, an answer to each round it is asked in, a contribution, counts when
it is drawn for them. What was said is kept, and said again after 10 s, 20, 40, until its receipt is
there; whatever cuts the connection, it comes back and says it on the next.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

import numpy as np

from coordinator.ledger.versions import OfferedTotal
from edge_agent.daemon import outbound
from protofleet import wire
from protofleet.contract import Contract
from protofleet.errors import FleetError
from protofleet.exchange import published
from protofleet.exchange.lots import Lots, read_lots
from protofleet.exchange.published import STABLE, About
from protofleet.mqtt.link import packets
from protofleet.mqtt.topics import Topics
from protofleet.settings.fields import from_plain
from protofleet.util import seeds
from protofleet.values.prototypes import Prototypes
from protofleet.wire import Envelope, Message
from protofleet.wire.codes import RoundPhase, UploadStatus
from simulators.speed import raw
from simulators.trees import contributors
from simulators.trees.contributors import CLASSES, LINEAGE

METHOD, EMBEDDING = "fedproto", 8  # of its rounds
FIRST_WAIT, LONGEST_WAIT = 10.0, 80.0  # seconds until something is said again
CONNACK, PUBACK = 2, 4  # kinds of packets, MQTT 3.1.1
SUBSCRIPTION, BIRTH = 1, 2  # packet ids; statements have those from 3 up
READ = 1 << 16


@dataclass
class Unanswered:
    """Something that waits for its receipt."""

    round: int  # 0: a contribution, or counts
    payload: bytes
    is_counts: bool
    again_at: float = 0.0
    wait: float = FIRST_WAIT


@dataclass
class LightDevice:
    """`receipts` is what it was told of uploads and of what it contributed, by the digest of its
    body; of counts it keeps none: those against an earlier total are dropped, as they should be.
    """

    agent: str
    topics: Topics
    seed: int = 0
    connection: socket.socket | None = None
    is_in: bool = False  # the broker let it in
    is_born: bool = False  # and has its birth
    contributes: bool = False
    receipts: dict[str, tuple[int, str]] = field(default_factory=dict)
    waiting: dict[str, Unanswered] = field(default_factory=dict)
    again: int = 0  # statements that were said more than once
    _life: int = 0
    _number: int = BIRTH
    _in: bytearray = field(default_factory=bytearray)
    _out: bytearray = field(default_factory=bytearray)
    _run: str = ""
    _epoch: int = 0
    _answered: int = 0  # the newest round that it made an upload for
    _contributed: str = ""  # the run that it contributed to
    _counted: str = ""  # the total that it counted against
    _about: About | None = None
    _total: bytes = b""

    # its connection

    def connect(self, host: str, port: int) -> socket.socket:
        """Begin to; what it has to say goes out when the socket can be written to."""
        self._life += 1
        self._in.clear()
        self._out.clear()
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if (code := connection.connect_ex((host, port))) not in (0, errno.EINPROGRESS):
            connection.close()
            raise FleetError(f"{self.agent} cannot connect: {errno.errorcode.get(code, code)}")
        self.connection, self.is_in, self.is_born = connection, False, False
        will = outbound.will(self.topics, self.agent, self._boot)
        # Flags: a will, retained, of QoS 1. No clean session: the broker keeps what is missed.
        head = raw.text("MQTT") + b"\4\x2c\0\0" + raw.text(self.agent)
        size = len(will.payload).to_bytes(2, "big")
        self._out += raw.packet(0x10, head + raw.text(will.topic) + size + will.payload)
        return connection

    def cut(self) -> None:
        """As when its power goes: no farewell."""
        if self.connection is not None:
            # Without lingering: the broker sees a reset, and says the will.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            self.connection.close()
        self.connection, self.is_in, self.is_born = None, False, False

    @property
    def wants_to_write(self) -> bool:
        """Whether something is to leave."""
        return bool(self._out)

    def write(self) -> None:
        """As much as the system takes."""
        assert self.connection is not None
        try:
            while self._out:
                del self._out[: self.connection.send(self._out)]
        except BlockingIOError:
            return

    def read(self, now: float) -> None:
        """What came; `ConnectionError` where it ended."""
        assert self.connection is not None
        try:
            data = self.connection.recv(READ)
        except BlockingIOError:
            return
        if not data:
            raise ConnectionResetError
        self._in += data
        for head, body in _packets(self._in):
            if head >> 4 == CONNACK:
                if body[1]:
                    raise ConnectionRefusedError
                self._enter(now)
            elif head >> 4 == PUBACK and int.from_bytes(body[:2], "big") == BIRTH:
                self.is_born = True
            elif head >> 4 == packets.PUBLISH >> 4:
                self._arrived(head, body, now)

    def look(self, now: float) -> None:
        """Say again what had no answer."""
        for statement in self.waiting.values():
            if self.is_in and now >= statement.again_at:
                self.again += 1
                self._say(statement, now)

    # what it says

    @property
    def _boot(self) -> str:
        return f"{self._life:016x}"

    def _enter(self, now: float) -> None:
        """Subscriptions, a birth, and whatever waits."""
        self.is_in = True
        wishes = b"".join(raw.text(f) + bytes([q]) for f, q in self.topics.for_device(self.agent))
        self._out += raw.packet(0x82, SUBSCRIPTION.to_bytes(2, "big") + wishes)
        envelope = Envelope("birth", self.topics.fleet, agent=self.agent, boot=self._boot)
        names = contributors.classes_of(self.agent)
        body = {
            "online": True,
            "version": "light",
            "wire": [wire.VERSION],
            "classes": list(names),
            "samples": contributors.SAMPLES * len(names),
        }
        birth = wire.encode(envelope, body)
        # 0x33: PUBLISH of QoS 1, retained.
        topic = raw.text(self.topics.state(self.agent))
        self._out += raw.packet(0x33, topic + BIRTH.to_bytes(2, "big") + birth)
        for statement in self.waiting.values():
            self._say(statement, now)

    def _offer(self, round: int, payload: bytes, now: float, *, counts: bool = False) -> None:
        """Say it until its receipt is there."""
        digest = sha256(wire.unseal(payload)[1]).hexdigest()
        self.waiting[digest] = Unanswered(round, payload, counts)
        if self.is_in:
            self._say(self.waiting[digest], now)

    def _say(self, statement: Unanswered, now: float) -> None:
        self._number = self._number + 1 if self._number < 65_535 else BIRTH + 1
        self._out += raw.upload(
            self.topics, self.agent, statement.round, self._number, statement.payload
        )
        statement.again_at = now + statement.wait
        statement.wait = min(2 * statement.wait, LONGEST_WAIT)

    # what it hears

    def _arrived(self, head: int, body: bytes, now: float) -> None:
        at = 2 + int.from_bytes(body[:2], "big")
        topic, qos = body[2:at].decode(), (head & packets.QOS1) >> 1
        if qos:
            self._out += packets.puback(int.from_bytes(body[at : at + 2], "big"))
        payload = body[at + 2 * qos :]
        if payload:
            self._hear(topic, payload, now)

    def _hear(self, topic: str, payload: bytes, now: float) -> None:
        topics = self.topics
        if topic == topics.receipt(self.agent):
            self._receipt(wire.decode(payload), now)
        elif topic == topics.round:
            self._announced(_announced(payload), now)
        elif topic == topics.proto(STABLE):
            self._about = _about(payload)
            self.contribute(now)
            self._count(now)
        elif topic == topics.proto("total"):
            self._total = payload
            self._count(now)

    def _receipt(self, message: Message, now: float) -> None:
        digest, status = str(message.body["digest"]), str(message.body["status"])
        statement = self.waiting.get(digest)
        if statement is None or status == UploadStatus.MISSING:
            return
        del self.waiting[digest]
        if not statement.is_counts:
            self.receipts[digest] = statement.round, status
        self._count(now)

    def _announced(self, announced: Announcement, now: float) -> None:
        envelope = announced.envelope
        self._run, self._epoch = envelope.run or "", envelope.epoch or 0
        number = envelope.round or 0
        self.contribute(now)
        if announced.phase != RoundPhase.OPEN or number <= self._answered:
            return
        if announced.lots is not None and not announced.lots.ask(self.agent):
            return
        self._answered = number
        head = Envelope(
            "upload", self.topics.fleet, self._run, self._epoch, self.agent, self._boot, number,
            number, METHOD, envelope.base,
        )  # fmt: skip
        rng = seeds.generator(self.agent, number)
        vectors = rng.normal(size=(len(CLASSES), EMBEDDING)).astype(np.float32)
        points = Prototypes(np.arange(len(CLASSES)), vectors, rng.integers(1, 90, len(CLASSES)))
        self._offer(number, wire.encode(head, {"prototypes": points}), now)

    def contribute(self, now: float) -> None:
        """To the ledger, once it knows which and was told that it may."""
        about = self._about
        ready = self.contributes and about is not None and about.lineage == LINEAGE
        if not ready or not self._run or self._contributed == self._run:
            return
        self._contributed = self._run
        self._offer(0, contributors.statement(self.topics.fleet, self.agent, self.seed), now)

    def _count(self, now: float) -> None:
        """Against the total that is asked about, where it is this device's turn."""
        about = self._about
        spoke = self._contributed and not any(not s.round for s in self.waiting.values())
        if about is None or not about.asked or not self._total or not spoke:
            return
        drawn = OfferedTotal(LINEAGE, about.total, 0, about.asked).is_for(self.agent)
        if self._counted == about.total or not drawn:
            return
        if _decoded_head(self._total).base != about.total:
            return
        self._counted = about.total
        report = contributors.counted(self.topics.fleet, self.agent, self.seed, self._total)
        self._offer(0, report, now, counts=True)


# What is for all comes once to each device of a process, and is read once.


class Announcement(NamedTuple):
    """What a round's announcement says, as far as a light device cares."""

    envelope: Envelope
    phase: str
    lots: Lots | None


@lru_cache(maxsize=8)
def _announced(payload: bytes) -> Announcement:
    envelope, body, _ = wire.decode(payload)
    contract = from_plain(Contract, body["contract"], "contract")
    return Announcement(envelope, body["phase"], read_lots(body, contract, envelope.round or 0))


@lru_cache(maxsize=8)
def _decoded_head(payload: bytes) -> Envelope:
    return wire.unseal(payload)[0]


@lru_cache(maxsize=8)
def _about(payload: bytes) -> About:
    return published.read(payload).bank.about


def _packets(buffer: bytearray) -> Iterator[tuple[int, bytes]]:
    """Whole packets, taken off the front: the first byte of each, and its body."""
    data, at = bytes(buffer), 0
    while at < len(data):
        bounds = packets.frame(data, at)
        if bounds is None or bounds[1] > len(data):
            break
        yield data[at], data[bounds[0] : bounds[1]]
        at = bounds[1]
    del buffer[:at]
