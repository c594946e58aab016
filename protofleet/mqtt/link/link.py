"""The link to a broker that a coordinator or a device keeps for weeks.

One thread of its own connects, listens, sends and connects again; its owner polls for events,
publishes and acknowledges, and is never blocked. A publication of QoS 1 stays until the broker
acknowledges it, over any number of connections; what arrives stays with the broker until `ack`, so
that a process that dies loses nothing it was given.
"""

# Theory of operation
#
# The link's thread makes one `Connection` after the other; how each ended decides what comes next:
#
#   ended                        next
#   stopped by the owner         the thread ends
#   early, with MQTT 5           the same again with 3.1.1, at once; 5 is tried first next time
#   refused                      event Refused, wait, connect again: a password may be put right
#   anything else                event Lost, wait, connect again
#
# How long the wait is, is `reconnect`'s.
#
# The session at the broker lasts over connections, also with `clean_start`: that holds until the
# broker has let us in once, so that a cut in the first hour does not lose what was on its way to
# us.
#
# A broker may hang up on one publication each time (too large, a rule, a bug); sent again first on
# every connection, it would hold up all others for good. After STRIKES connections in a row that
# sent something and saw nothing acknowledged, the largest in flight is given up.
#
# Threads: the owner's leave wishes (`Commands`, the outbox) and ring the waker; the link's leaves
# events in the inbox. Neither waits for the other, but for `stop`. Wishes are written before the
# waker is rung, and the waker is cleared before they are read; else one could lie there unseen
# until something else happens.

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
from protofleet.mqtt.link.commands import Commands, LinkEnded, LinkParts
from protofleet.mqtt.link.connection import Connection
from protofleet.mqtt.link.events import (
    MEGABYTE,
    Arrival,
    Connected,
    Delivered,
    Denied,
    Event,
    LinkSettings,
    Lost,
    Publication,
    Refused,
    Ticket,
    Will,
)
from protofleet.mqtt.link.inbox import Inbox
from protofleet.mqtt.link.outbox import Outbox, Record
from protofleet.mqtt.link.reconnect import Backoff, Reconnect, jittered
from protofleet.mqtt.link.waker import Waker

__all__ = [
    "Arrival",
    "Connected",
    "Delivered",
    "Denied",
    "Event",
    "Link",
    "LinkSettings",
    "Lost",
    "Publication",
    "Refused",
    "Ticket",
    "Will",
]

STRIKES = 8  # connections in a row that sent something and had nothing acknowledged
DEFAULT = LinkSettings()
UNREAD_BYTES = 4 * MEGABYTE  # of arrivals that the owner has not polled yet


class Link:
    """What an owner has of its broker: events to poll, and publications that are not lost.

    One thread polls; publish, ack, subscribe and wake may be called from any. QoS 0 is dropped
    while there is no connection (its ticket says so), and on arrival while the owner does not keep
    up (`dropped` counts those).
    """

    def __init__(
        self,
        address: Address,
        client_id: str,
        settings: LinkSettings = DEFAULT,
        *,
        rng: random.Random,
        backoff: Backoff | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clean = settings.clean_start
        self._reconnect = Reconnect(backoff or jittered(rng))
        self._clock = clock
        # Room for four times what the broker may send ahead, so that one batch of the owner's work
        # does not stop the reading.
        self._inbox = Inbox(max(4 * settings.receive_maximum, 1024), UNREAD_BYTES)
        self._outbox = Outbox(
            settings.queue_most,
            settings.queue_bytes,
            lambda ticket: self._inbox.put_status(Delivered(ticket)),
        )
        self._waker = Waker()
        self._thread: threading.Thread | None = None
        self._connection: Connection | None = None
        self._strikes = 0
        self._commands = Commands({}, deque(), deque())
        self._parts = LinkParts(
            ClientSettings(address, client_id, settings),
            self._commands,
            self._inbox,
            self._outbox,
            self._waker,
            clock,
        )

    @property
    def address(self) -> Address:
        return self._parts.settings.address

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
            target=self._keep, name=f"link-{self._parts.settings.client_id}", daemon=True
        )
        self._thread.start()

    def stop(self, farewell: Sequence[Publication] = (), patience: float = 5.0) -> None:
        """Deliver what waits and then the farewell, for `patience` seconds at most, and disconnect
        without a will.
        """
        if self._thread is None or self._commands.close_by is not None:
            return
        if self.connected:
            for topic, payload, qos, retain in farewell:
                ticket = self._outbox.ticket()
                last = Record(topic, payload, qos, retain, None, None, False, ticket)
                self._outbox.put(last, force=True)
        self._commands.close_by = self._clock() + patience
        self._waker.wake()
        self._thread.join(patience + 2.0)
        if not self._thread.is_alive():
            self._waker.close()
        self._outbox.abandon("the link was stopped")
        self._inbox.wake()

    def subscribe(self, filters: Iterable[tuple[str, int]]) -> None:
        """Now or as soon as there is a connection, and again on each new one."""
        added = list(filters)
        # The order matters: a connection that is greeted between the two has read the filters.
        self._commands.filters = {**self._commands.filters, **dict(added)}
        if self.connected:
            self._commands.fresh.extend(added)
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
        self._commands.acks.extend(
            arrival.token for arrival in arrivals if arrival.token is not None
        )
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
            return self._outbox.refusal("no connection")
        until = None if expiry is None else self._clock() + expiry
        ticket = self._outbox.ticket()
        self._outbox.put(Record(topic, payload, qos, retain, until, correlation, tell, ticket))
        self._waker.wake()
        return ticket

    def wake(self) -> None:
        """End a `poll` early; may be called from a signal handler."""
        self._inbox.wake()

    def _keep(self) -> None:
        """The link's thread: connect, again and again."""
        number = 0
        while True:
            number += 2  # two tries, each with a number of its own for its tokens
            ended = self._connect_once(number, five=True)
            if ended.early and not self._stopping:  # as brokers that only know 3.1.1 do
                ended = self._connect_once(number + 1, five=False)
            if self._stopping:
                return
            now = self._clock()
            lasted = None if ended.greeted is None else now - ended.greeted
            lost = Lost(self._reconnect.explained(ended.reason, lasted))
            self._inbox.put_status(Refused(ended.reason) if ended.refused else lost)
            again = now + self._reconnect.wait(lasted or 0.0)
            # Whoever publishes or subscribes meanwhile rings the waker, too: sleep on.
            while not self._stopping and (remaining := again - self._clock()) > 0:
                self._waker.wait(remaining)

    @property
    def _stopping(self) -> bool:
        return self._commands.close_by is not None

    def _connect_once(self, number: int, five: bool) -> LinkEnded:
        self._connection = Connection(self._parts, number, five=five, clean=self._clean)
        ended = self._connection.run()
        self._strikes = self._strikes + 1 if self._connection.stuck else 0
        self._connection = None
        if self._strikes == STRIKES:
            self._strikes = 0
            largest = self._outbox.give_up_largest(f"the broker hung up on it {STRIKES} times")
            if largest is not None:
                self._inbox.put_status(Denied(largest.topic, largest.ticket.refused or ""))
        self._outbox.disconnected()
        self._clean = self._clean and ended.greeted is None
        return ended
