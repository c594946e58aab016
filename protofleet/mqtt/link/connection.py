"""One connection to the broker, from the first packet to the last, on one thread.

paho does the protocol; the loop around it is ours, so that paho is touched by one thread only, its
callbacks do nothing but note what came, and little queues up inside it: a publication is handed
over when most of those before have left.
"""

# Theory of operation
#
# A `Connection` is made for one attempt, run to its end and thrown away; what must outlive it (the
# queues, the subscriptions, the wish to stop) is lent by the link in `LinkParts`. So nothing has to
# be reset, and nothing of paho's state can leak from one connection into the next. Only `run` is
# called, once, on the link's thread. Its answer, a `LinkEnded`, is what the link decides by.
#
#   state     what happens                                 becomes, and what is done
#   reaching  no socket, no such host                      ended
#   reaching  the broker's certificate does not hold       ended, refused
#   reaching  there is a socket                            asking: CONNECT is sent
#   asking    CONNACK: welcome                             greeted: subscribe, flush, say Connected
#   asking    CONNACK: MQTT 5 is not spoken                ended, early: 3.1.1 is tried at once
#   asking    CONNACK: wrong name, password, method        ended, refused
#   asking    CONNACK: any other no                        ended
#   asking    hung up, or nothing for `answer` seconds     ended, early
#   asking    the owner stops                              ended
#   greeted   the owner stops                              closing
#   greeted   socket gone, a ping unanswered, DISCONNECT,  ended: the broker publishes our will
#             or bytes that are no packet
#   closing   nothing is pending, or `close_by` is past    ended, with a goodbye: no will
#
# "early" means that the broker may only know 3.1.1: some say so, some hang up, and some (amqtt)
# wait forever for more bytes, which is what `answer` is for. "refused" means that waiting will not
# mend it, yet the link goes on trying: a password can be put right at the broker's side.
#
# In `greeted`, one turn of the loop is: put what is ordered into the buffer (`_follow`), flush,
# sleep in `select`, read. The order has reasons:
# - Subscriptions go out before anything is published, and before `Connected` is said: an answer to
#   a publication must not come before we listen to it.
# - Acknowledgements go out before publications. Until it is acknowledged an arrival counts against
#   our receive maximum, and a broker that has spent it stops delivering.
# - An acknowledgement is made by the owner (`Link.ack`), once what arrived is safe, never here. Its
#   token carries the number of the connection: packet ids begin anew on each, so one of an earlier
#   connection is thrown away. The broker delivers that message again, as it has to.
# - What cannot be for us (no text for a topic, or retained for somebody else's subscription) is
#   acknowledged here, as the owner never sees it.
# - While the inbox is full nothing is read at all. TCP then holds up the broker, which holds up the
#   sender; nothing in between has to be bounded again.
#
# Plain arrivals, our acknowledgements of them, and publications of QoS 0 pass by paho (`packets`,
# `stream`), which takes ten times as long over each. It still sees every QoS 1 publication of ours,
# for it hands out the packet ids, and all that is unusual.
#
# One thread, because paho is not to be touched by two: a publication could be acknowledged before
# the outbox knew its packet id, and each of paho's steps would wait for a lock that the other side
# holds. The owner never waits for this thread; it leaves its wishes in `Commands` and the outbox,
# and rings the waker.

from __future__ import annotations

import selectors
import ssl
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from protofleet.mqtt.link import packets
from protofleet.mqtt.link.client import (
    PATIENCE,
    Complaint,
    build,
    connect,
    hang_up,
    plain,
    properties,
    stream,
)
from protofleet.mqtt.link.commands import LinkEnded, LinkParts, unanswered
from protofleet.mqtt.link.events import Arrival, Connected, Denied, Token
from protofleet.mqtt.link.outbox import Record
from protofleet.mqtt.link.packets import Delivery
from protofleet.mqtt.link.stream import Stream

if TYPE_CHECKING:
    from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTMessage
    from paho.mqtt.properties import Properties
    from paho.mqtt.reasoncodes import ReasonCode

IN_FLIGHT = 64  # publications waiting for their acknowledgement
T = TypeVar("T")
# MQTT 5, table 2-6: unsupported protocol version; bad user name or password, not authorised, bad
# authentication method. paho translates the return codes of 3.1.1 into these.
UNSUPPORTED, BAD_LOGIN = {132}, {134, 135, 140}


class StreamWatch:
    """What a selector is asked to look at of one connection: only what can be dealt with now.

    It hears of changes only, for each is a call to the system.
    """

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._stream: Stream | None = None
        self._mask = 0

    def look(self, stream: Stream, reading: bool, writing: bool) -> None:
        """For room to write in, and for something to read."""
        mask = (selectors.EVENT_READ if reading else 0) | (selectors.EVENT_WRITE if writing else 0)
        if (self._stream, self._mask) == (stream, mask):
            return
        if self._stream is not None and self._mask:
            self._selector.unregister(self._stream)
        if mask:
            self._selector.register(stream, mask)
        self._stream, self._mask = stream, mask


class Connection:
    """Made, run once to its end, thrown away."""

    def __init__(self, parts: LinkParts, number: int, *, five: bool, clean: bool) -> None:
        self._number, self._five, self._clean = number, five, clean
        self._settings, self._commands, self._clock = parts.settings, parts.commands, parts.clock
        self._inbox, self._outbox, self._waker = parts.inbox, parts.outbox, parts.waker
        self._greeted: float | None = None
        self._answer: tuple[ReasonCode, ConnectFlags, Properties | None] | None = None
        self._lost: str | None = None
        self._progress = self._acknowledged = 0
        self._subscribing: dict[int, list[tuple[str, int]]] = {}  # by packet id
        # Until the broker says what it takes; 2**28 is the most that the protocol can carry.
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
        settings, complaint = self._settings, Complaint()
        try:
            client = build(settings, self._five, self._clean, complaint)
            client.on_connect = self._on_connect
            client.on_disconnect = self._on_disconnect
            client.on_message = self._on_message
            client.on_publish = self._on_publish
            client.on_subscribe = self._on_subscribe
            connect(client, settings, self._five, self._clean)
        except ssl.SSLCertVerificationError as error:
            return LinkEnded(
                f"the broker's certificate does not hold: {error.verify_message}", refused=True
            )
        except (OSError, ValueError) as error:  # ValueError: host names that cannot be
            return LinkEnded(f"{settings.address} cannot be reached: {plain(error)}")
        try:
            return self._serve(client) or self._broken(complaint.words)
        except Exception as error:  # bytes paho cannot stand cost the connection, not the thread
            return LinkEnded(f"broken packet ({type(error).__name__}: {error})", self._greeted)
        finally:
            # Not called for our own goodbye: the reason noted by then is the one that counts.
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
        # Asked for as an attribute, a property that is absent raises.
        fields = {} if message.properties is None else message.properties.__dict__
        try:
            topic = message.topic
        except UnicodeDecodeError:
            topic = None
        payload = bytes(message.payload)
        self._arrived(
            Delivery(topic, payload, message.qos, message.retain, message.mid, 0),
            fields.get("CorrelationData"),
        )

    def _arrived(self, delivery: Delivery, correlation: bytes | None = None) -> None:
        self._progress += 1
        topic, payload, qos, retain, packet, _ = delivery
        token = Token(self._number, packet) if qos else None
        # amqtt hands each new client what others subscribed to
        if topic is None or (retain and not self._is_subscribed(topic)):
            if token is not None:
                self._commands.acks.append(token)
            return
        self._inbox.arrived(Arrival(topic, payload, qos, retain, token, correlation))

    def _is_subscribed(self, topic: str) -> bool:
        from paho.mqtt.client import topic_matches_sub

        return any(topic_matches_sub(pattern, topic) for pattern in self._commands.filters)

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
        for (topic, _qos), reason in zip(self._subscribing.pop(packet, []), reasons, strict=False):
            if reason.is_failure:
                self._inbox.put_status(Denied(topic, str(reason)))

    def _serve(self, client: Client) -> LinkEnded | None:
        """Until the owner is done with it or the broker refuses (then how it ended), or the
        connection is gone.
        """
        until_answer = self._clock() + self._settings.link.answer
        # paho sends its pings in `loop_misc` only: six looks in the time that one may take.
        rest = min(5.0, self._settings.link.keepalive / 6)
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
                # Packets that were read already, or lie in the TLS layer, do not wake `select`.
                here = through.pending and not self._inbox.full
                wait = 0 if here else min(rest, self._soonest(until_answer))
                self._exchange(client, through, selector.select(wait))
                now = self._clock()
                if now >= next_check:
                    next_check = now + min(rest, 1.0)
                    client.loop_misc()
        return None

    def _move(self, client: Client, until_answer: float) -> LinkEnded | None:
        """What is to be done now, by what the broker answered and the owner ordered."""
        closing = self._commands.close_by
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
        deadline = self._commands.close_by
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
            for delivery in through.deliveries(self._five):
                self._arrived(delivery)
                if self._inbox.full:
                    return
            # paho reports success for a part of a packet, too; only a callback of ours that ran
            # shows that it got on, and without that this loop would spin.
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
        limits = {} if answered is None else vars(answered)
        self._window = min(IN_FLIGHT, limits.get("ReceiveMaximum", IN_FLIGHT))
        self._packet = limits.get("MaximumPacketSize", self._packet)
        # From `_greeted` on `Link.subscribe` adds to `fresh` as well. What it added just before is
        # among the filters already; what it adds just after goes out with the next turn.
        self._commands.fresh.clear()
        self._subscribe(client, list(self._commands.filters.items()))
        if (through := stream(client)) is not None:
            through.flush()  # whoever hears that we are connected may publish what we subscribe to
        # Before MQTT 5 nobody says whether they are known.
        shares = self._five and limits.get("SharedSubscriptionAvailable", 1) != 0
        protocol = "5" if self._five else "3.1.1"
        self._inbox.put_status(Connected(flags.session_present, protocol, shares))

    def _follow(self, client: Client) -> None:
        """Do what the owner asked for since the last time."""
        self._subscribe(client, list(_drained(self._commands.fresh)))
        through = stream(client)
        if through is None:
            return
        acks = [
            packets.puback(packet)
            for number, packet in _drained(self._commands.acks)
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
                self._subscribing[packet] = filters

    def _send(self, client: Client, through: Stream, record: Record) -> None:
        remaining = None if record.until is None else record.until - self._clock()
        if remaining is not None and remaining <= 0:
            self._outbox.settle(record, "expired before it could be sent")
            return
        # 64 bytes for the header and properties. A packet that is larger than the broker takes
        # costs the connection, and would again on the next one.
        if len(record.payload) + len(record.topic) + 64 > self._packet:
            self._refuse(
                record, f"{len(record.payload)} bytes, the broker takes packets of {self._packet}"
            )
            return
        fields = properties(remaining, record.correlation) if self._five else None
        if not record.qos and fields is None:
            packet = packets.publish(record.topic, record.payload, record.retain, self._five)
            if packet is not None:
                through.put(packet)
                self._outbox.settle(record)
                return
        try:
            info = client.publish(record.topic, record.payload, record.qos, record.retain, fields)
        except ValueError as error:  # a topic with a wildcard, or more than the protocol can carry
            self._refuse(record, str(error))
            return
        if record.qos:
            self._outbox.in_flight(info.mid, record)
        else:
            self._outbox.settle(record)

    def _refuse(self, record: Record, reason: str) -> None:
        self._outbox.settle(record, reason)
        self._inbox.put_status(Denied(record.topic, reason))

    def _broken(self, complaint: str | None) -> LinkEnded:
        """How a connection ended that neither side took leave of."""
        refusal = self._refusal()
        if refusal is not None:
            return refusal
        reason = complaint or self._lost or "the connection is gone"
        return (
            unanswered(self._settings.address, reason)
            if self._greeted is None
            else LinkEnded(reason, self._greeted)
        )


def _drained(queue: deque[T]) -> Iterator[T]:
    while queue:
        yield queue.popleft()
