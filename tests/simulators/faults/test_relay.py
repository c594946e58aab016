"""The carrier breaks what MQTT does not promise, and nothing that it does."""

import random
import time

import pytest

from protofleet.mqtt.address import Address
from protofleet.mqtt.link.events import Arrival, Token
from protofleet.mqtt.topics import Topics
from simulators.faults.relay import DeliveryFaults, Relay

TOPICS = Topics("trial")
HOW = DeliveryFaults()
MANY = 2000


@pytest.fixture
def times():
    """When a message of this topic is delivered, as often as it is asked."""
    nowhere = Address.parse("mqtt://127.0.0.1:1")
    carrier = Relay("trial", nowhere, nowhere, HOW, random.Random(1))

    def ask(topic, qos):
        arrival = Arrival(topic, b"", qos, False, Token(1, 1))
        deliveries = []
        for _ in range(MANY):
            now = time.monotonic()
            deliveries.append([at - now for at in carrier._times(arrival)])
        return deliveries

    return ask


def test_a_message_of_qos_1_always_comes_and_sometimes_twice(times):
    deliveries = times(TOPICS.upload("a", 1), 1)
    assert {len(each) for each in deliveries} == {1, 2}
    assert sum(len(each) == 2 for each in deliveries) / MANY == pytest.approx(HOW.twice, abs=0.05)
    late = sum(each[0] > 0.05 for each in deliveries) / MANY
    assert late == pytest.approx(HOW.late * (1 - 0.05 / HOW.longest), abs=0.1)
    assert max(map(max, deliveries)) < HOW.longest + 1


def test_one_of_qos_0_may_be_lost(times):
    deliveries = times(TOPICS.report("a"), 0)
    assert sum(not each for each in deliveries) / MANY == pytest.approx(HOW.lost, abs=0.05)


def test_who_is_there_is_told_once_and_at_once(times):
    for topic in (TOPICS.state("a"), TOPICS.coordinator_state):
        assert all(len(each) == 1 and each[0] < 1 for each in times(topic, 1))
