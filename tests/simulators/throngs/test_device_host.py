"""A process of light devices at a real broker: they come, are cut off and come back."""

import time

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from protofleet import wire
from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.broker.run import running_broker
from protofleet.mqtt.topics import Topics
from simulators.faults.testbed import until
from simulators.throngs.device_host import DeviceHost, device_name
from simulators.throngs.light_device import LightDevice

TOPICS = Topics("crowd")
NAMES = [device_name(n) for n in range(6)]


def test_devices_have_names_of_one_length():
    assert device_name(7) == "light-00007"


@pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")
def test_half_of_them_are_cut_off_without_a_word_and_come_back(tmp_path):
    with running_broker(tmp_path, prefer="mosquitto") as broker:
        there = {}

        def take(client, user, arrival):
            message = wire.decode(bytes(arrival.payload))
            there[message.envelope.agent] = message.body["online"], message.envelope.boot

        ear = mqtt.Client(CallbackAPIVersion.VERSION2)
        ear.on_message = take
        ear.connect(broker.address.host, broker.address.port)
        ear.subscribe(f"{TOPICS.prefix}/d/+/state", 1)
        ear.loop_start()
        devices = [LightDevice(name, TOPICS) for name in NAMES]
        host = DeviceHost(broker.address.host, broker.address.port, devices)

        def turned(condition):
            host.turn(0.02)
            return condition()

        def born(many):
            return lambda: turned(lambda: host.standing["born"] == many)

        host.execute("join", time.monotonic())
        until(born(6), "all of them")
        host.execute("cut", time.monotonic())
        assert host.standing["born"] == 3
        dead = lambda: sum(not online for online, _ in there.values()) == 3  # noqa: E731
        until(lambda: turned(dead), "three wills")
        assert [name for name, (online, _) in there.items() if not online]
        host.execute("back", time.monotonic())
        until(born(6), "all of them again")
        until(lambda: all(online for online, _ in there.values()), "six births")
        boots = [there[name][1] for name in NAMES]
        assert boots[:3] == [f"{2:016x}"] * 3  # another life
        assert boots[3:] == [f"{1:016x}"] * 3
        ear.loop_stop()
        ear.disconnect()


@pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")
def test_who_loses_its_broker_tries_again(tmp_path):
    device = LightDevice("light-00000", TOPICS)
    with running_broker(tmp_path / "first", prefer="mosquitto") as broker:
        host = DeviceHost(broker.address.host, broker.address.port, [device])
        host.execute("join", time.monotonic())

        def born():
            host.turn(0.02)
            return device.is_born

        until(born, "its birth")
    until(lambda: host.turn(0.02) or host.lost >= 1, "that it notices")
    assert not device.is_born
    assert host.standing["lost"] >= 1


def test_a_command_that_nobody_knows_changes_nothing():
    host = DeviceHost("127.0.0.1", 1, [LightDevice("light-00000", TOPICS)])
    host.execute("dance", 0.0)
    assert host.standing == {"born": 0, "waiting": 0, "receipts": {}, "again": 0, "lost": 0}
    assert host.report == {"report": {"light-00000": {}}}
