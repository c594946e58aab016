"""One connection, against a broker that is played byte by byte: what goes out when, and how it
ends.
"""

import selectors
import socket
import threading
import time
from collections import deque

import pytest

from protofleet.mqtt.address import Address
from protofleet.mqtt.link.client import ClientSettings
from protofleet.mqtt.link.commands import Commands, LinkParts
from protofleet.mqtt.link.connection import Connection, StreamWatch
from protofleet.mqtt.link.events import Arrival, Connected, Denied, LinkSettings, Token
from protofleet.mqtt.link.inbox import Inbox
from protofleet.mqtt.link.outbox import Outbox, Record
from protofleet.mqtt.link.waker import Waker

CONNECT, PUBLISH, PUBACK, SUBSCRIBE, DISCONNECT = 0x10, 0x30, 0x40, 0x80, 0xE0
WELCOME = b"\x20\x03\x00\x00\x00"
NUMBER = 8  # of the connection


class Play:
    """A connection on a thread of its own, and the broker's end of it."""

    def __init__(self, five=True, **settings):
        self.server = socket.create_server(("127.0.0.1", 0))
        address = Address("mqtt", "127.0.0.1", self.server.getsockname()[1])
        self.inbox, self.outbox = Inbox(1024, 2**20), Outbox(100, 2**20, lambda ticket: None)
        self.commands, self.waker = Commands({}, deque(), deque()), Waker()
        parts = LinkParts(
            ClientSettings(address, "one", LinkSettings(**settings)),
            self.commands,
            self.inbox,
            self.outbox,
            self.waker,
            time.monotonic,
        )
        self.connection = Connection(parts, NUMBER, five=five, clean=True)
        self._endings = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        self._endings.append(self.connection.run())

    def begin(self, answer=WELCOME):
        """Take the connection, read its CONNECT, and answer that."""
        self._thread.start()
        self.peer, _ = self.server.accept()
        self.peer.settimeout(20)
        self._stream = self.peer.makefile("rb")
        assert self.packet()[0] == CONNECT
        self.peer.sendall(answer)

    def packet(self):
        """The next packet's kind and body."""
        head = self._stream.read(1)[0]
        size = shift = 0
        while True:
            byte = self._stream.read(1)[0]
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return head & 0xF0, self._stream.read(size)

    def put(self, topic, payload=b"x", qos=1):
        ticket = self.outbox.ticket()
        self.outbox.put(Record(topic, payload, qos, False, None, None, False, ticket))
        self.waker.wake()
        return ticket

    def stop(self, patience=0.0):
        self.commands.close_by = time.monotonic() + patience
        self.waker.wake()

    def ending(self):
        self._thread.join(20)
        return self._endings[0]

    def events(self, count):
        """So many events, all that there are."""
        events = []
        while len(events) < count:
            events += self.inbox.take(20)
        return events + self.inbox.take(0)

    def close(self):
        self.stop()
        self.peer.close()
        self.server.close()
        self.ending()
        self.waker.close()


@pytest.fixture
def play():
    plays = []

    def make(**options):
        plays.append(Play(**options))
        return plays[-1]

    yield make
    for one in plays:
        one.close()


def topic_of(body):
    return body[2 : 2 + int.from_bytes(body[:2], "big")].decode()


def packet_of(body):
    at = 2 + int.from_bytes(body[:2], "big")
    return body[at : at + 2]


@pytest.mark.parametrize(
    ("answer", "early", "refused"),
    [
        (b"\x20\x03\x00\x84\x00", True, False),  # unsupported protocol version
        (b"\x20\x02\x00\x01", True, False),  # the same, in the words of 3.1.1
        (b"\x20\x03\x00\x86\x00", False, True),  # bad user name or password
        (b"\x20\x03\x00\x87\x00", False, True),  # not authorised
        (b"\x20\x03\x00\x88\x00", False, False),  # server unavailable
    ],
)
def test_a_broker_that_says_no_is_tried_in_another_way_or_later(play, answer, early, refused):
    one = play()
    one.begin(answer)
    ending = one.ending()
    assert (ending.early, ending.refused, ending.greeted) == (early, refused, None)
    assert "refuses" in ending.reason
    assert one.events(0) == []


def test_one_that_hangs_up_or_says_nothing_may_only_know_the_older_version(play):
    rude, silent = play(), play(answer=0.1)
    rude.begin(b"")
    rude.peer.shutdown(socket.SHUT_RDWR)
    silent.begin(b"")
    for one, reason in ((rude, "hung up before it answered"), (silent, "does not answer")):
        ending = one.ending()
        assert (ending.early, ending.refused) == (True, False)
        assert reason in ending.reason


def test_subscriptions_go_out_first_and_then_what_waited(play):
    one = play()
    one.commands.filters = {"a/+": 1, "b": 0}
    one.put("a/1")
    one.begin()
    kinds = [one.packet() for _ in range(2)]
    assert [kind for kind, _ in kinds] == [SUBSCRIBE, PUBLISH]
    assert b"a/+" in kinds[0][1]
    assert topic_of(kinds[1][1]) == "a/1"
    assert one.events(1) == [Connected(False, "5", shares=True)]
    assert one.connection.greeted


def test_no_more_is_in_flight_than_the_broker_takes(play):
    one = play()
    tickets = [one.put(str(number)) for number in range(5)]
    one.begin(b"\x20\x06\x00\x00\x03\x21\x00\x02")  # receive maximum 2
    first, second = one.packet(), one.packet()
    one.peer.settimeout(0.2)
    with pytest.raises(TimeoutError):
        one.packet()
    one.peer.settimeout(20)
    one._stream = one.peer.makefile("rb")
    assert one.connection.stuck
    one.peer.sendall(b"\x40\x02" + packet_of(first[1]))
    assert topic_of(one.packet()[1]) == "2"
    assert tickets[0].wait(20)
    assert [ticket.done for ticket in tickets] == [True, False, False, False, False]
    assert not one.connection.stuck
    assert topic_of(second[1]) == "1"


def test_what_the_broker_cannot_take_is_refused_here_and_costs_nothing_else(play):
    one = play()
    large, small = one.put("large", bytes(200)), one.put("small")
    one.begin(b"\x20\x08\x00\x00\x05\x27\x00\x00\x00\xc8")  # maximum packet size 200
    assert topic_of(one.packet()[1]) == "small"
    assert large.wait(20)
    assert "packets of 200" in large.refused
    assert not small.done
    assert [type(event) for event in one.events(2)] == [Connected, Denied]


def test_only_what_came_on_this_connection_is_acknowledged(play):
    one = play()
    one.commands.acks.extend([Token(NUMBER - 2, 5), Token(NUMBER, 6)])
    one.begin()
    assert one.packet() == (PUBACK, b"\x00\x06")
    one.put("next")
    assert one.packet()[0] == PUBLISH


def test_what_cannot_be_for_us_is_acknowledged_and_not_handed_out(play):
    one = play()
    one.commands.filters = {"mine/#": 1}
    one.begin()
    assert one.packet()[0] == SUBSCRIBE
    foreign = b"\x33\x0a\x00\x05other\x00\x01\x00"  # retained, as amqtt hands it to new clients
    no_text = b"\x32\x07\x00\x02\xff\xfe\x00\x02\x00"
    mine = b"\x33\x0c\x00\x06mine/x\x00\x03\x00y"
    one.peer.sendall(foreign + no_text + mine)
    assert [one.packet(), one.packet()] == [(PUBACK, b"\x00\x01"), (PUBACK, b"\x00\x02")]
    assert one.events(2) == [
        Connected(False, "5", shares=True),
        Arrival("mine/x", b"y", 1, True, Token(NUMBER, 3)),
    ]


def test_a_refused_subscription_is_told_and_the_others_count(play):
    one = play()
    one.commands.filters = {"a": 1, "b": 1}
    one.begin()
    _, body = one.packet()
    one.peer.sendall(b"\x90\x05" + body[:2] + b"\x00\x01\x87")
    assert [e.topic for e in one.events(2) if isinstance(e, Denied)] == ["b"]


def test_a_stop_waits_for_what_is_pending_and_takes_its_leave(play):
    one = play()
    ticket = one.put("last")
    one.begin()
    _, body = one.packet()
    one.stop(patience=20)
    assert not ticket.wait(0.05)
    one.peer.sendall(b"\x40\x02" + packet_of(body))
    assert one.packet()[0] == DISCONNECT
    ending = one.ending()
    assert (ending.reason, ending.greeted is not None, ticket.refused) == ("stopped", True, None)


def test_a_stop_does_not_wait_longer_than_it_may(play):
    one = play()
    one.put("never acknowledged")
    one.begin()
    one.packet()
    one.stop(patience=0.1)
    assert one.ending().reason == "stopped"
    assert one.outbox.flying == 1


@pytest.mark.parametrize(
    "data",
    [
        b"\x30\x06\x00\x01t\x02\xff\xff",  # a property that there is not
        b"\x90\x00",  # an answer to a subscription, and not to which
        b"\x32\x03\x00\x01t",  # a publication that ends before its packet id
        b"\x30\xff\xff\xff\xff\x01",  # a length that cannot be
    ],
)
def test_bytes_that_are_no_packet_cost_the_connection_and_not_the_thread(play, data):
    one = play()
    one.begin()
    one.events(1)
    one.peer.sendall(data)
    ending = one.ending()
    assert (ending.reason, ending.early) == ("Protocol error", False)
    assert ending.greeted is not None
    assert one._stream.read() == b""  # no goodbye: the broker publishes our will


def test_the_broker_s_own_word_of_its_leave_is_the_reason(play):
    one = play()
    one.begin()
    one.events(1)
    one.peer.sendall(b"\xe0\x02\x8e\x00")
    one.peer.shutdown(socket.SHUT_RDWR)
    assert one.ending().reason == "the broker closed it: Session taken over"


class CountingSelector(selectors.DefaultSelector):
    calls = 0

    def register(self, *arguments):
        self.calls += 1
        return super().register(*arguments)

    def unregister(self, *arguments):
        self.calls += 1
        return super().unregister(*arguments)


def test_a_selector_hears_of_changes_only():
    here, there = socket.socketpair()
    with here, there, CountingSelector() as selector:
        watch = StreamWatch(selector)
        calls = []
        for reading, writing in [(1, 0), (1, 0), (1, 1), (0, 0), (0, 0), (0, 1)]:
            watch.look(here, bool(reading), bool(writing))
            calls.append(selector.calls)
        assert calls == [1, 1, 3, 4, 4, 5]
        there.close()
        assert [mask for _, mask in selector.select(5)] == [selectors.EVENT_WRITE]
