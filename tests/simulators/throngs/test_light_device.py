"""A light device speaks as a real one: what it says it says until there is a receipt."""

import socket
from dataclasses import replace

import pytest

from protofleet import wire
from protofleet.contract import Contract, Input
from protofleet.exchange.lots import BAR, lot
from protofleet.mqtt.link import packets
from protofleet.mqtt.topics import Topics
from protofleet.settings.fields import to_plain
from protofleet.wire import Envelope
from simulators.speed import raw
from simulators.throngs.light_device import LightDevice
from simulators.trees.contributors import CLASSES

TOPICS = Topics("crowd")
CONTRACT = Contract("crowd", "bench", 0, CLASSES, Input("vector", (6,)), 8)
BASE = "ab" * 32
AGENT = "light-00001"


class Broker:
    """The other end of its socket."""

    def __init__(self, device):
        self.device = device
        self.end, device.connection = socket.socketpair()
        device.connection.setblocking(False)
        self.end.settimeout(5)

    def say(self, data, now=0.0):
        self.end.sendall(data)
        self.device.read(now)
        self.device.write()

    def publish(self, topic, payload, now=0.0, qos=1):
        number = b"\0\7" if qos else b""
        self.say(raw.packet(0x30 | qos << 1, raw.text(topic) + number + payload), now)

    def heard(self):
        """By topic, what it published since."""
        self.device.write()
        self.end.setblocking(False)
        try:
            data = self.end.recv(1 << 20)
        except BlockingIOError:
            data = b""
        self.end.settimeout(5)
        publications, at = [], 0
        while at < len(data):
            _, end = packets.frame(data, at)
            delivery = packets.delivery(data, at, False)
            if delivery is not None:
                publications.append((delivery.topic, delivery.payload))
            at = end
        return publications


@pytest.fixture
def device():
    return LightDevice(AGENT, TOPICS)


@pytest.fixture
def broker(device):
    broker = Broker(device)
    yield broker
    broker.end.close()
    device.connection.close()


def announcement(round=1, **more):
    envelope = Envelope("round", "crowd", "bench", 1, round=round, method="fedproto", base=BASE)
    body = {"phase": "open", "contract": to_plain(CONTRACT), "participants": None, **more}
    return wire.encode(envelope, body)


def receipt(digest, status="accepted", round=1):
    envelope = Envelope("receipt", "crowd", "bench", 1, AGENT, round=round)
    return wire.encode(envelope, {"digest": digest, "round": round, "status": status})


CONNACK = b"\x20\2\0\0"


def test_it_is_born_when_it_is_let_in_and_knows_when_the_broker_has_its_birth(device, broker):
    broker.say(CONNACK[:3])  # in two pieces
    assert broker.heard() == []
    broker.say(CONNACK[3:])
    ((topic, payload),) = broker.heard()
    message = wire.decode(payload)
    assert topic == TOPICS.state(AGENT)
    assert message.body["online"] is True
    assert (device.is_in, device.is_born) == (True, False)
    broker.say(b"\x40\2\0\2")
    assert device.is_born


def test_one_that_is_not_let_in_is_not_there(device, broker):
    with pytest.raises(ConnectionRefusedError):
        broker.say(b"\x20\2\0\5")
    assert not device.is_in


def test_it_answers_a_round_once_and_says_it_until_there_is_a_receipt(device, broker):
    broker.say(CONNACK)
    broker.heard()
    broker.publish(TOPICS.round, announcement())
    broker.publish(TOPICS.round, announcement())
    ((topic, payload),) = broker.heard()
    message = wire.decode(payload)
    assert topic == TOPICS.upload(AGENT, 1)
    assert (message.envelope.round, message.envelope.base) == (1, BASE)
    device.look(9.0)
    assert broker.heard() == []
    device.look(10.0)
    assert broker.heard() == [(topic, payload)]
    assert device.again == 1
    # A receipt for something else is none for this.
    broker.publish(TOPICS.receipt(AGENT), receipt("cd" * 32), qos=0)
    broker.publish(TOPICS.receipt(AGENT), receipt(message.digest, "missing"), qos=0)
    assert len(device.waiting) == 1
    broker.publish(TOPICS.receipt(AGENT), receipt(message.digest), qos=0)
    assert not device.waiting
    assert device.receipts == {message.digest: (1, "accepted")}
    device.look(1000.0)
    assert broker.heard() == []


def test_what_waits_is_said_on_the_next_connection(device, broker):
    broker.say(CONNACK)
    broker.publish(TOPICS.round, announcement())
    *_, spoken = broker.heard()
    device.cut()
    again = Broker(device)
    again.say(CONNACK)
    assert again.heard()[-1] == spoken
    again.end.close()


def test_it_answers_only_if_its_lot_is_low_enough(device, broker):
    broker.say(CONNACK)
    broker.heard()
    own = lot(CONTRACT, 1, AGENT)
    broker.publish(TOPICS.round, announcement(participants=[], **{BAR: own - 1}))
    assert broker.heard() == []
    broker.publish(TOPICS.round, announcement(participants=[], **{BAR: own}))
    assert len(broker.heard()) == 1
    broker.publish(TOPICS.round, announcement(2, phase="closed"))
    assert broker.heard() == []


def test_two_devices_say_different_things():
    uploads = []
    for name in (AGENT, "light-00002"):
        device = LightDevice(name, TOPICS)
        broker = Broker(device)
        broker.say(CONNACK)
        broker.publish(TOPICS.round, announcement())
        uploads.append(wire.decode(broker.heard()[-1][1]))
        broker.end.close()
        device.connection.close()
    assert uploads[0].digest != uploads[1].digest
    assert replace(uploads[0].envelope, agent="x") == replace(uploads[1].envelope, agent="x")
