"""The link to a broker that a coordinator or a device keeps for weeks.

One thread of its own connects, listens, sends and connects again; its owner polls for events,
publishes and acknowledges, and is never blocked. A publication of QoS 1 stays until the broker
acknowledges it, over any number of connections; what arrives stays with the broker until `ack`, so
that a process that dies loses nothing it was given.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from protofleet.errors import LinkError
from protofleet.mqtt.address import Address
from protofleet.mqtt.link.client import ClientSettings, tls_context
from protofleet.mqtt.link.commands import Commands, LinkEnded
from protofleet.mqtt.link.connection import Connection
from protofleet.mqtt.link.events import (
    Arrival,
    Backoff,
    Connected,
    Delivered,
    Denied,
    Event,
    Lost,
    Publication,
    Refused,
    Ticket,
    Will,
)
from protofleet.mqtt.link.inbox import Inbox
from protofleet.mqtt.link.outbox import Outbox
from protofleet.mqtt.link.waker import Waker

__all__ = [
    "Arrival",
    "Connected",
    "Delivered",
    "Denied",
    "Event",
    "Link",
    "Lost",
    "Publication",
    "Refused",
    "Ticket",
    "Will",
    "jittered",
]

STEADY = 10.0  # seconds after which a connection counts as one that worked
STRIKES = 8  # connections in a row that sent something and had nothing acknowledged
MEGABYTE = 2**20


def jittered(rng: random.Random) -> Backoff:
    """1 to 2 seconds before the first new attempt, then up to twice as long each time, 60 at
    most.
    """
    return lambda attempt: rng.uniform(1.0, min(60.0, 2.0 ** (min(attempt, 10) + 1)))


class Link:
    """Beyond the common surface: `Denied` and `Delivered` events, `publish(..., tell=True)` for the
    latter.

    One thread polls; publish, ack, subscribe and wake may be called from any. QoS 0 is dropped
    while there is no connection (its ticket says so), and on arrival while the owner does not keep
    up (`dropped` counts those).
    """

    def __init__(
        self,
        address: Address,
        client_id: str,
        *,
        will: Will | None = None,
        keepalive: int = 30,
        session_expiry: int = 86400,
        receive_maximum: int = 256,
        clean_start: bool = False,
        max_packet: int = 16 * MEGABYTE,
        answer: float = 5.0,
        rng: random.Random,
        backoff: Backoff | None = None,
        clock: Callable[[], float] = time.monotonic,
        queue_most: int = 10_000,
        queue_bytes: int = 64 * MEGABYTE,
    ) -> None:
        self._setup = ClientSettings(
            address, client_id, will, keepalive, session_expiry, receive_maximum, max_packet, answer
        )
        self._clean = clean_start
        self._backoff = backoff or jittered(rng)
        self._clock = clock
        self._inbox = Inbox(max(4 * receive_maximum, 1024), 4 * MEGABYTE)
        self._outbox = Outbox(
            queue_most, queue_bytes, lambda ticket: self._inbox.put_status(Delivered(ticket))
        )
        self._waker = Waker()
        self._thread: threading.Thread | None = None
        self._connection: Connection | None = None
        self._strikes = 0
        self._orders = Commands({}, deque(), deque())

    @property
    def address(self) -> Address:
        return self._setup.address

    @property
    def connected(self) -> bool:
        connection = self._connection
        return connection is not None and connection.greeted

    @property
    def pending(self) -> int:
        """Publications not acknowledged yet, sent or not."""
        return self._outbox.pending

    @property
    def dropped(self) -> int:
        """Arrivals of QoS 0 dropped because too much lay unread."""
        return self._inbox.dropped

    def start(self) -> None:
        """Start to connect; certificates that cannot be read are a `LinkError` here."""
        if self._thread is not None:
            raise LinkError("the link was started already")
        if self.address.tls:
            try:
                tls_context(self.address)
            except OSError as error:
                raise LinkError(
                    f"the TLS files cannot be used ({error})", "they must be in PEM form"
                ) from None
        self._thread = threading.Thread(
            target=self._keep, name=f"link-{self._setup.client_id}", daemon=True
        )
        self._thread.start()

    def stop(self, farewell: Sequence[Publication] = (), patience: float = 5.0) -> None:
        """Deliver what waits and then the farewell, for `patience` seconds at most, and disconnect
        without a will.
        """
        if self._thread is None or self._orders.close_by is not None:
            return
        if self.connected:
            for last in farewell:
                self._outbox.put(last.topic, last.payload, last.qos, last.retain, force=True)
        self._orders.close_by = self._clock() + patience
        self._waker.wake()
        self._thread.join(patience + 2.0)
        if not self._thread.is_alive():
            self._waker.close()
        self._outbox.abandon("the link was stopped")
        self._inbox.wake()

    def subscribe(self, filters: Iterable[tuple[str, int]]) -> None:
        """Now or as soon as there is a connection, and again on each new one."""
        wanted = list(filters)
        self._orders.filters = {**self._orders.filters, **dict(wanted)}
        if self.connected:
            self._orders.fresh.extend(wanted)
            self._waker.wake()

    def poll(self, timeout: float | None) -> list[Event]:
        """Wait up to `timeout` seconds for something to happen; empty if nothing did, or after
        `wake`.
        """
        events = self._inbox.take(timeout)
        if self._inbox.paused:
            self._waker.wake()
        return events

    def ack(self, *arrivals: Arrival) -> None:
        """The owner has dealt with them: the broker may forget them. Nothing to do for QoS 0."""
        self._orders.acks.extend(arrival.token for arrival in arrivals if arrival.token is not None)
        self._waker.wake()

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is published and acknowledged inside leaves at the end, all at once."""
        with self._waker.later():
            yield

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        qos: int = 1,
        retain: bool = False,
        expiry: float | None = None,
        correlation: bytes | None = None,
        tell: bool = False,
    ) -> Ticket:
        """Put it in the queue (`LinkBusy` when that is full); `tell` makes a `Delivered` event when
        it is done.
        """
        if not qos and not self.connected:
            return self._outbox.vain("no connection")
        until = None if expiry is None else self._clock() + expiry
        ticket = self._outbox.put(topic, payload, qos, retain, until, correlation, tell)
        self._waker.wake()
        return ticket

    def wake(self) -> None:
        """End a `poll` early; may be called from a signal handler."""
        self._inbox.wake()

    def _keep(self) -> None:
        """The link's thread: connect, again and again."""
        attempt = number = 0
        while True:
            number += 2
            ended = self._connect_once(number, five=True)
            if ended.early and not self._stopping:  # as brokers that only know 3.1.1 do
                ended = self._connect_once(number + 1, five=False)
            if self._stopping:
                return
            steady = ended.greeted is not None and self._clock() - ended.greeted > STEADY
            attempt = 0 if steady else attempt
            self._inbox.put_status(Refused(ended.reason) if ended.refused else Lost(ended.reason))
            again = self._clock() + self._backoff(attempt)
            attempt += 1
            while not self._stopping and (left := again - self._clock()) > 0:
                self._waker.wait(left)

    @property
    def _stopping(self) -> bool:
        return self._orders.close_by is not None

    def _connect_once(self, number: int, five: bool) -> LinkEnded:
        self._connection = Connection(
            number,
            five,
            self._clean,
            self._setup,
            self._orders,
            self._inbox,
            self._outbox,
            self._waker,
            self._clock,
        )
        ended = self._connection.run()
        self._strikes = self._strikes + 1 if self._connection.stuck else 0
        self._connection = None
        if (
            self._strikes == STRIKES
        ):  # else one packet that the broker hangs up on would hold up all others for good
            self._strikes = 0
            given_up = self._outbox.give_up_largest(f"the broker hung up on it {STRIKES} times")
            if given_up is not None:
                self._inbox.put_status(Denied(given_up.topic, given_up.ticket.refused or ""))
        self._outbox.disconnected()
        self._clean = self._clean and ended.greeted is None
        return ended
