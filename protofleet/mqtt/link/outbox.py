"""What waits to be sent: a bounded queue that keeps every QoS 1 publication until the broker
acknowledges it.

Any thread may put; only the link's own thread takes, holds what is on its way, and settles.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Condition, Lock
from typing import NamedTuple

from protofleet.errors import LinkBusy
from protofleet.mqtt.link.events import Ticket


class Record(NamedTuple):
    """A publication on its way; `until` is when it stops being worth sending, by the link's
    clock.
    """

    topic: str
    payload: bytes
    qos: int
    retain: bool
    until: float | None
    correlation: bytes | None
    tell: bool
    ticket: Ticket


class Outbox:
    """Publications not yet done, in order."""

    def __init__(self, most: int, most_bytes: int, told: Callable[[Ticket], None]) -> None:
        self._most, self._most_bytes, self._told = most, most_bytes, told
        self._lock = Lock()
        self._count = self._bytes = 0
        self._waiting: deque[Record] = deque()
        self._flying: dict[int, Record] = {}  # by packet id, in the order they were sent
        self._condition = Condition()

    @property
    def pending(self) -> int:
        return self._count

    @property
    def flying(self) -> int:
        return len(self._flying)

    def put(
        self,
        topic: str,
        payload: bytes,
        qos: int,
        retain: bool,
        until: float | None = None,
        correlation: bytes | None = None,
        tell: bool = False,
        force: bool = False,
    ) -> Ticket:
        """Take a publication in, or raise `LinkBusy`; one that is alone always fits."""
        record = Record(
            topic, payload, qos, retain, until, correlation, tell, Ticket(self._condition)
        )
        with self._lock:
            full = self._count >= self._most or self._bytes + len(payload) > self._most_bytes
            if full and self._count and not force:
                raise LinkBusy(
                    f"{self._count} publications ({self._bytes} bytes) wait to be sent",
                    "try again later",
                )
            self._count += 1
            self._bytes += len(payload)
            self._waiting.append(record)
        return record.ticket

    def vain(self, reason: str) -> Ticket:
        """The ticket of something not even taken in."""
        ticket = Ticket(self._condition)
        ticket.settle(reason)
        return ticket

    def next(self) -> Record | None:
        return self._waiting.popleft() if self._waiting else None

    def sent(self, packet: int, record: Record) -> None:
        """A QoS 1 publication went out; what becomes of it is up to the broker."""
        self._flying[packet] = record

    def acknowledged(self, packet: int, refused: str | None) -> Record | None:
        record = self._flying.pop(packet, None)
        if record is not None:
            self.settle(record, refused)
        return record

    def settle(self, record: Record, refused: str | None = None) -> None:
        with self._lock:
            self._count -= 1
            self._bytes -= len(record.payload)
        record.ticket.settle(refused)
        if record.tell:
            self._told(record.ticket)

    def give_up_largest(self, reason: str) -> Record | None:
        """Settle what, of all that is on its way, is likeliest to be what the broker cannot
        stand.
        """
        packet = max(
            self._flying, key=lambda number: len(self._flying[number].payload), default=None
        )
        return None if packet is None else self.acknowledged(packet, reason)

    def disconnected(self) -> None:
        """What was on its way is sent again first; QoS 0 is not worth keeping."""
        with self._lock:
            records = [*self._flying.values(), *self._waiting]
            self._flying.clear()
            self._waiting.clear()
            self._waiting.extend(record for record in records if record.qos)
        for record in records:
            if not record.qos:
                self.settle(record, "no connection")

    def abandon(self, reason: str) -> None:
        """The link ends: settle everything that is left."""
        self.disconnected()
        while (record := self.next()) is not None:
            self.settle(record, reason)
