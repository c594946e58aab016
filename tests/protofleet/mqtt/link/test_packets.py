"""Packets written and read without paho are those that paho writes and reads; all others are left
to it.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protofleet.mqtt.link import packets
from protofleet.mqtt.link.packets import Delivery
from tests.sockets import by_paho, payloads, topics


@given(topics, payloads, st.booleans(), st.booleans())
def test_publications_are_written_as_paho_writes_them(topic, payload, retain, five):
    assert packets.publish(topic, payload, retain, five) == by_paho(topic, payload, 0, retain, five)


@pytest.mark.parametrize("topic", ["", "a/+", "#", "x" * 65_536])
def test_topics_that_cannot_be_are_left_to_paho(topic):
    assert packets.publish(topic, b"", False, True) is None


def test_packet_numbers_are_kept_and_acknowledged():
    data = by_paho("t", b"x", 1, False, True)
    delivery = packets.delivery(data, 0, True)
    assert delivery.packet == int.from_bytes(data[5:7], "big")
    assert packets.puback(delivery.packet) == b"\x40\x02" + data[5:7]


def test_publications_with_properties_or_qos_2_are_left_to_paho():
    whole = bytearray(by_paho("t", b"x", 1, False, True))
    assert packets.delivery(bytes(whole), 0, True) is not None
    assert packets.delivery(bytes((whole[0] | 4, *whole[1:])), 0, True) is None
    whole[7] = 2  # bytes of properties
    assert packets.delivery(bytes(whole), 0, True) is None


@given(st.binary(max_size=60), st.booleans())
def test_no_bytes_make_it_fail(data, five):
    delivery = packets.delivery(data, 0, five)
    assert delivery is None or delivery.end <= len(data)


@given(topics, payloads, st.integers(0, 1), st.booleans(), st.booleans(), st.binary(max_size=9))
def test_what_paho_writes_is_read_whole_and_not_before(topic, payload, qos, retain, five, behind):
    data = by_paho(topic, payload, qos, retain, five)
    delivery = packets.delivery(data + behind, 0, five)
    packet = delivery.packet
    assert delivery == Delivery(topic, payload, qos, retain, packet, len(data))
    assert (packet > 0) == (qos > 0)
    assert packets.delivery(data[:-1], 0, five) is None


@given(st.integers(0, 2**28 - 1))
def test_the_length_of_any_packet_is_read(size):
    """MQTT 5, 1.5.5: seven bits a byte, the lowest first, while the eighth is set."""
    length, rest = bytearray(), size
    while True:
        rest, low = divmod(rest, 128)
        length.append(low | (128 if rest else 0))
        if not rest:
            break
    assert packets.frame(b"\x30" + length, 0) == (1 + len(length), 1 + len(length) + size)
    for there in range(1 + len(length)):
        assert packets.frame((b"\x30" + length)[:there], 0) is None


def test_a_length_that_cannot_be_ends_in_a_packet_that_paho_refuses():
    assert packets.frame(b"\x30\xff\xff\xff\xff\x01", 0) == (5, 6)


def test_a_topic_that_is_no_text_is_known_by_none_and_can_still_be_acknowledged():
    data = by_paho("tt", b"x", 1, False, True).replace(b"tt", b"\xff\xfe")
    delivery = packets.delivery(data, 0, True)
    assert (delivery.topic, delivery.payload, delivery.end) == (None, b"x", len(data))
    assert delivery.packet > 0
