"""One connection to the broker, from the first packet to the last, on one thread.

paho does the protocol; the loop around it is ours, so that paho is touched by one thread only, its
callbacks do nothing but note what came, and little queues up inside it: a publication is handed
over when most of those before have left.
"""

from __future__ import annotations

import selectors
import ssl
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from protofleet.mqtt.link import packets
from protofleet.mqtt.link.client import (
    PATIENCE,
    ClientSettings,
    Complaint,
    build,
    connect,
    hang_up,
    plain,
    properties,
    stream,
)
from protofleet.mqtt.link.commands import Commands, LinkEnded, unanswered
from protofleet.mqtt.link.events import Arrival, Connected, Denied, Token
from protofleet.mqtt.link.inbox import Inbox
from protofleet.mqtt.link.outbox import Outbox, Record
from protofleet.mqtt.link.packets import Delivery
from protofleet.mqtt.link.stream import Stream
from protofleet.mqtt.link.waker import Waker
from protofleet.mqtt.link.watch import StreamWatch

if TYPE_CHECKING:
    from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTMessage
    from paho.mqtt.properties import Properties
    from paho.mqtt.reasoncodes import ReasonCode

IN_FLIGHT = 64  # publications waiting for their acknowledgement
T = TypeVar("T")
UNSUPPORTED, BAD_LOGIN = {132}, {134, 135, 140}


class Connection:
    """Made, run once to its end, thrown away."""

    def __init__(
        self,
        number: int,
        five: bool,
        clean: bool,
        setup: ClientSettings,
        orders: Commands,
        inbox: Inbox,
        outbox: Outbox,
        waker: Waker,
        clock: Callable[[], float],
    ) -> None:
        self._number, self._five, self._clean, self._setup = number, five, clean, setup
        self._orders, self._inbox, self._outbox, self._waker, self._clock = (
            orders,
            inbox,
            outbox,
            waker,
            clock,
        )
        self._greeted: float | None = None
        self._answer: tuple[ReasonCode, ConnectFlags, Properties | None] | None = None
        self._lost: str | None = None
        self._progress = self._acknowledged = 0
        self._asked: dict[int, list[tuple[str, int]]] = {}
        self._window, self._packet = IN_FLIGHT, 2**28

    @property
    def stuck(self) -> bool:
        """Something was sent, and nothing acknowledged."""
        return self._acknowledged == 0 and self._outbox.flying > 0

    @property
    def greeted(self) -> bool:
        return self._greeted is not None

    def run(self) -> LinkEnded:
        """Connect, serve, and say how it ended; never raises for what a network or a broker may
        do.
        """
        complaint = Complaint()
        try:
            client = build(self._setup, self._five, self._clean, complaint)
            client.on_connect = self._on_connect
            client.on_disconnect = self._on_disconnect
            client.on_message = self._on_message
            client.on_publish = self._on_publish
            client.on_subscribe = self._on_subscribe
            connect(client, self._setup, self._five, self._clean)
        except ssl.SSLCertVerificationError as error:
            return LinkEnded(
                f"the broker's certificate does not hold: {error.verify_message}", refused=True
            )
        except (OSError, ValueError) as error:  # ValueError: host names that cannot be
            return LinkEnded(f"{self._setup.address} cannot be reached: {plain(error)}")
        try:
            return self._serve(client) or self._gone(complaint.words)
        except Exception as error:  # bytes paho cannot stand cost the connection, not the thread
            return LinkEnded(f"broken packet ({type(error).__name__}: {error})", self._greeted)
        finally:
            client.on_disconnect = None
            hang_up(client)

    def _on_connect(
        self,
        client: Client,
        _: Any,
        flags: ConnectFlags,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        self._answer = (reason, flags, properties)

    def _on_disconnect(
        self,
        client: Client,
        _: Any,
        flags: DisconnectFlags,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        if flags.is_disconnect_packet_from_server:
            self._lost = f"the broker closed it: {reason}"
        elif str(reason) != "Unspecified error":
            self._lost = str(reason)

    def _on_message(self, client: Client, _: Any, message: MQTTMessage) -> None:
        inner = (
            None
            if message.properties is None
            else message.properties.__dict__.get("CorrelationData")
        )
        try:
            topic = message.topic
        except UnicodeDecodeError:
            topic = None
        self._came(
            Delivery(topic, bytes(message.payload), message.qos, message.retain, message.mid, 0),
            inner,
        )

    def _came(self, came: Delivery, correlation: bytes | None = None) -> None:
        self._progress += 1
        token = Token(self._number, came.packet) if came.qos else None
        # amqtt hands each new client what others subscribed to
        if came.topic is None or (came.retain and not self._wanted(came.topic)):
            if token is not None:
                self._orders.acks.append(token)
            return
        self._inbox.arrived(
            Arrival(came.topic, came.payload, came.qos, came.retain, token, correlation)
        )

    def _wanted(self, topic: str) -> bool:
        from paho.mqtt.client import topic_matches_sub

        return any(topic_matches_sub(wanted, topic) for wanted in self._orders.filters)

    def _on_publish(
        self, client: Client, _: Any, packet: int, reason: ReasonCode, properties: Properties
    ) -> None:
        self._progress += 1
        self._acknowledged += 1
        refused = str(reason) if reason.is_failure else None
        record = self._outbox.acknowledged(packet, refused)
        if record is not None and refused is not None:
            self._inbox.put_status(Denied(record.topic, refused))

    def _on_subscribe(
        self,
        client: Client,
        _: Any,
        packet: int,
        reasons: list[ReasonCode],
        properties: Properties | None,
    ) -> None:
        for (topic, _qos), reason in zip(self._asked.pop(packet, []), reasons, strict=False):
            if reason.is_failure:
                self._inbox.put_status(Denied(topic, str(reason)))

    def _serve(self, client: Client) -> LinkEnded | None:
        """Until the owner is done with it or the broker refuses (then how it ended), or the
        connection is gone.
        """
        until_answer = self._clock() + self._setup.answer
        rest = min(5.0, self._setup.keepalive / 6)
        next_check = self._clock()
        with selectors.DefaultSelector() as selector:
            selector.register(self._waker, selectors.EVENT_READ)
            watch = StreamWatch(selector)
            while client.socket() is not None:
                ended = self._move(client, until_answer)
                if ended is not None:
                    return ended
                through = stream(client)
                if through is None:
                    break
                through.flush()
                watch.look(through, not self._inbox.pause(), through.waiting or client.want_write())
                here = through.pending and not self._inbox.full
                wait = 0 if here else min(rest, self._soonest(until_answer))
                self._exchange(client, through, selector.select(wait))
                now = self._clock()
                if now >= next_check:
                    next_check = now + min(rest, 1.0)
                    client.loop_misc()
        return None

    def _move(self, client: Client, until_answer: float) -> LinkEnded | None:
        """What is to be done now, by what was heard and ordered."""
        closing = self._orders.close_by
        if self._greeted is None:
            if closing is not None:
                return LinkEnded("stopped")
            if self._answer is None:
                return (
                    LinkEnded("the broker does not answer", early=True)
                    if self._clock() > until_answer
                    else None
                )
            refusal = self._refusal()
            if refusal is not None:
                return refusal
            self._greet(client)
        self._follow(client)
        if closing is not None and (self._outbox.pending == 0 or self._clock() >= closing):
            return LinkEnded("stopped", self._greeted)
        return None

    def _soonest(self, until_answer: float) -> float:
        """Seconds to the next deadline there is."""
        deadline = self._orders.close_by
        if self._greeted is None:
            deadline = until_answer
        return PATIENCE if deadline is None else max(0.01, deadline - self._clock())

    def _exchange(
        self, client: Client, through: Stream, ready: list[tuple[selectors.SelectorKey, int]]
    ) -> None:
        """Write and read what can be written and read."""
        readable = through.pending
        for key, mask in ready:
            if key.fileobj is self._waker:
                self._waker.clear()
                continue
            readable = readable or bool(mask & selectors.EVENT_READ)
            if mask & selectors.EVENT_WRITE:
                through.flush()
                client.loop_write()
        if readable and not self._inbox.full:
            self._read(client, through)

    def _read(self, client: Client, through: Stream) -> None:
        """Packets that are there already, plain publications without paho."""
        through.fill()
        while True:
            for came in through.deliveries(self._five):
                self._came(came)
                if self._inbox.full:
                    return
            before = self._progress
            if (
                not through.ready
                or client.loop_read()
                or self._progress == before
                or self._inbox.full
            ):
                return

    def _refusal(self) -> LinkEnded | None:
        if self._answer is None or not self._answer[0].is_failure:
            return None
        reason = self._answer[0]
        early = self._five and reason.value in UNSUPPORTED
        return LinkEnded(
            f"the broker refuses: {reason}", early=early, refused=reason.value in BAD_LOGIN
        )

    def _greet(self, client: Client) -> None:
        """The broker let us in: subscribe first, so that nothing that follows from our publications
        is missed.
        """
        assert self._answer is not None
        _, flags, answered = self._answer
        self._greeted = self._clock()
        said = {} if answered is None else vars(answered)
        self._window = min(IN_FLIGHT, said.get("ReceiveMaximum", IN_FLIGHT))
        self._packet = said.get("MaximumPacketSize", self._packet)
        self._orders.fresh.clear()
        self._subscribe(client, list(self._orders.filters.items()))
        if (through := stream(client)) is not None:
            through.flush()  # whoever hears that we are connected may publish what we subscribe to
        self._inbox.put_status(Connected(flags.session_present, "5" if self._five else "3.1.1"))

    def _follow(self, client: Client) -> None:
        """Do what the owner asked for since the last time."""
        self._subscribe(client, list(_drained(self._orders.fresh)))
        through = stream(client)
        if through is None:
            return
        acks = [
            packets.puback(packet)
            for number, packet in _drained(self._orders.acks)
            if number == self._number
        ]
        through.put(b"".join(acks))
        while not through.full and not client.want_write() and self._outbox.flying < self._window:
            record = self._outbox.next()
            if record is None:
                return
            self._send(client, through, record)

    def _subscribe(self, client: Client, filters: list[tuple[str, int]]) -> None:
        if filters:
            _, packet = client.subscribe(filters)
            if packet is not None:
                self._asked[packet] = filters

    def _send(self, client: Client, through: Stream, record: Record) -> None:
        left = None if record.until is None else record.until - self._clock()
        if left is not None and left <= 0:
            self._outbox.settle(record, "expired before it could be sent")
            return
        if len(record.payload) + len(record.topic) + 64 > self._packet:
            self._refuse(
                record, f"{len(record.payload)} bytes, the broker takes packets of {self._packet}"
            )
            return
        said = properties(left, record.correlation) if self._five else None
        if not record.qos and said is None:
            packet = packets.publish(record.topic, record.payload, record.retain, self._five)
            if packet is not None:
                through.put(packet)
                self._outbox.settle(record)
                return
        try:
            info = client.publish(record.topic, record.payload, record.qos, record.retain, said)
        except ValueError as error:  # a topic with a wildcard, or more than the protocol can carry
            self._refuse(record, str(error))
            return
        if record.qos:
            self._outbox.sent(info.mid, record)
        else:
            self._outbox.settle(record)

    def _refuse(self, record: Record, reason: str) -> None:
        self._outbox.settle(record, reason)
        self._inbox.put_status(Denied(record.topic, reason))

    def _gone(self, complaint: str | None) -> LinkEnded:
        refusal = self._refusal()
        if refusal is not None:
            return refusal
        reason = complaint or self._lost or "the connection is gone"
        return (
            unanswered(self._setup, reason)
            if self._greeted is None
            else LinkEnded(reason, self._greeted)
        )


def _drained(queue: deque[T]) -> Iterator[T]:
    while queue:
        yield queue.popleft()
