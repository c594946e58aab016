"""What waits to be sent: a bounded queue that keeps every QoS 1 publication until the broker
acknowledges it.

Any thread may put; only the link's own thread takes, holds what is on its way, and settles.
"""

# Theory of operation
#
# A publication is in exactly one of three places, and leaves the last one settled:
#
#   place       leaves by            to         when
#   waiting     next + in_flight     flying     a QoS 1 publication was handed to paho
#   waiting     next + settle        settled    QoS 0, expired, or not fit to be sent
#   flying      acknowledged         settled    the broker's PUBACK, which may also refuse it
#   flying      give_up_largest      settled    the link takes it for what the broker cannot stand
#   flying      disconnected         waiting    the connection ended: before all that waits
#   (either)    abandon              settled    the link was stopped
#
# A packet id names a publication on one connection only, therefore `flying` is emptied with each:
# a PUBACK that comes late finds nothing. What comes back to `waiting` is sent again under a new id
# and without the DUP flag, which belongs to a resumed id. So the broker gets a publication at least
# once, in the order of `put` on any one connection, and whoever receives must stand a second copy:
# uploads are told apart by their digest, states by their round.
#
# QoS 0 is never carried over: what it says (a report, a heartbeat) is stale by then.
#
# The bound counts what is not settled, in publications and in bytes, both of what waits and of what
# flies; that is why `settle` is the only place that counts down. One publication larger than the
# whole bound is let in when nothing else is there, else it could never be sent at all. `force` is
# for farewells: they must not be refused because there is much to send.
#
# The lock holds for the counters and the hand-over in `put` and `disconnected` only. `next` and
# `flying` need none: they belong to the link's thread, and a deque's ends may be used by two
# threads at once.

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

    def __init__(self, most: int, most_bytes: int, on_done: Callable[[Ticket], None]) -> None:
        self._most, self._most_bytes, self._on_done = most, most_bytes, on_done
        self._lock = Lock()
        self._count = self._bytes = 0
        self._waiting: deque[Record] = deque()
        self._flying: dict[int, Record] = {}  # by packet id, in the order they were sent
        self._condition = Condition()  # one for all tickets: hardly any is ever waited for

    @property
    def pending(self) -> int:
        return self._count

    @property
    def flying(self) -> int:
        return len(self._flying)

    def ticket(self) -> Ticket:
        """A ticket for a record that is about to be put."""
        return Ticket(self._condition)

    def put(self, record: Record, force: bool = False) -> None:
        """Take a publication in, or raise `LinkBusy`; one that is alone always fits."""
        size = len(record.payload)
        with self._lock:
            full = self._count >= self._most or self._bytes + size > self._most_bytes
            if full and self._count and not force:
                raise LinkBusy(
                    f"{self._count} publications ({self._bytes} bytes) wait to be sent",
                    "try again later",
                )
            self._count += 1
            self._bytes += size
            self._waiting.append(record)

    def refusal(self, reason: str) -> Ticket:
        """The ticket of something not even taken in."""
        ticket = self.ticket()
        ticket.settle(reason)
        return ticket

    def next(self) -> Record | None:
        return self._waiting.popleft() if self._waiting else None

    def in_flight(self, packet: int, record: Record) -> None:
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
            self._on_done(record.ticket)

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
        # Outside the lock, which `settle` takes for itself.
        for record in records:
            if not record.qos:
                self.settle(record, "no connection")

    def abandon(self, reason: str) -> None:
        """The link ends: settle everything that is left."""
        self.disconnected()
        while (record := self.next()) is not None:
            self.settle(record, reason)
