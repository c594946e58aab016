"""What is read and written without paho is what paho reads and writes, however the bytes are
cut.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.client import CallbackAPIVersion, Client
from paho.mqtt.enums import MQTTProtocolVersion

from protofleet.mqtt.link import packets
from protofleet.mqtt.link.stream import READ, UNSENT, Stream

topics = st.text(
    st.characters(blacklist_categories=("Cs",), blacklist_characters="+#\0"),
    min_size=1,
    max_size=40,
)
payloads = st.one_of(st.binary(max_size=300), st.just(b"x" * 16_384))
PINGRESP = b"\xd0\x00"


class Wire:
    """A socket that hands out prepared pieces and keeps what it is sent."""

    def __init__(self, pieces=(), room=10**9):
        self.pieces, self.sent, self.room, self.closed = list(pieces), bytearray(), room, False

    def recv(self, size):
        if not self.pieces:
            raise BlockingIOError
        piece = self.pieces.pop(0)
        if isinstance(piece, OSError):
            raise piece
        return piece

    def send(self, data):
        if not self.room:
            raise BlockingIOError
        taken = bytes(data[: self.room])
        self.sent += taken
        self.room -= len(taken)
        return len(taken)

    def close(self):
        self.closed = True


def by_paho(topic, payload, qos, retain, five):
    """The bytes that paho sends for a publication."""
    version = MQTTProtocolVersion.MQTTv5 if five else MQTTProtocolVersion.MQTTv311
    client = Client(CallbackAPIVersion.VERSION2, protocol=version)
    client._sock = wire = Wire()
    client.publish(topic, payload, qos, retain)
    return bytes(wire.sent)


def cut(data, sizes):
    """The bytes in pieces."""
    at = 0
    for size in sizes:
        if at < len(data):
            yield data[at : at + size]
            at += size
    if at < len(data):
        yield data[at:]


def read_all(stream, five):
    """Everything that comes, publications as they are and other packets as their bytes."""
    seen = []
    for _ in range(10_000):
        stream.fill()
        seen += [(d.topic, d.payload, d.qos, d.retain) for d in stream.deliveries(five)]
        if stream.ready:
            other = bytearray()
            while True:
                try:
                    other += stream.recv(5)
                except BlockingIOError:
                    break
                if not stream._begun:
                    break
            seen.append(bytes(other))
        if not stream._sock.pieces and not stream.pending:
            return seen
    raise AssertionError("it does not end")


@given(topics, payloads, st.booleans(), st.booleans())
def test_publications_are_written_as_paho_writes_them(topic, payload, retain, five):
    assert packets.publish(topic, payload, retain, five) == by_paho(topic, payload, 0, retain, five)


@pytest.mark.parametrize("topic", ["", "a/+", "#", "x" * 65_536])
def test_topics_that_cannot_be_are_left_to_paho(topic):
    assert packets.publish(topic, b"", False, True) is None


messages = st.lists(st.tuples(topics, payloads, st.integers(0, 1), st.booleans()), max_size=4)


@given(messages, st.lists(st.integers(1, 40_000), max_size=12), st.booleans())
def test_what_comes_is_read_whole_however_it_is_cut(sent, sizes, five):
    data = b"".join(by_paho(*message, five) + PINGRESP for message in sent)
    wanted = [each for message in sent for each in (message, PINGRESP)]
    assert read_all(Stream(Wire(cut(data, sizes))), five) == wanted


def test_packet_numbers_are_kept_and_acknowledged():
    data = by_paho("t", b"x", 1, False, True)
    found = packets.delivery(data, 0, True)
    assert found.packet == int.from_bytes(data[5:7], "big")
    assert packets.puback(found.packet) == b"\x40\x02" + data[5:7]


def test_publications_with_properties_or_qos_2_are_left_to_paho():
    whole = bytearray(by_paho("t", b"x", 1, False, True))
    assert packets.delivery(bytes(whole), 0, True) is not None
    assert packets.delivery(bytes((whole[0] | 4, *whole[1:])), 0, True) is None
    whole[7] = 2  # bytes of properties
    assert packets.delivery(bytes(whole), 0, True) is None


@given(st.binary(max_size=60), st.booleans())
def test_no_bytes_make_it_fail(data, five):
    found = packets.delivery(data, 0, five)
    assert found is None or found.end <= len(data)


def test_a_large_packet_is_handed_over_in_pieces():
    data = by_paho("t", b"z" * (2 * READ), 1, False, True)
    stream = Stream(Wire([data[:1000]]))
    stream.fill()
    assert stream.ready
    assert list(stream.deliveries(True)) == []
    assert stream.recv(2000) == data[:1000]


def test_how_a_connection_ends_is_told_where_paho_looks():
    ended, broken = Stream(Wire([b""])), Stream(Wire([ConnectionResetError("gone")]))
    ended.fill()
    assert ended.ready
    assert ended.recv(1) == b""
    broken.fill()
    with pytest.raises(ConnectionResetError):
        broken.recv(1)


def test_what_is_sent_leaves_at_once_in_order_and_waits_where_there_is_no_room():
    wire = Wire(room=5)
    stream = Stream(wire)
    assert stream.send(b"abc") == 3
    stream.put(b"defg")
    assert not wire.sent
    stream.flush()
    assert (bytes(wire.sent), stream.waiting) == (b"abcde", True)
    wire.room = 10
    stream.close()
    assert (bytes(wire.sent), wire.closed) == (b"abcdefg", True)


def test_no_more_is_taken_than_can_wait():
    stream = Stream(Wire(room=0))
    stream.send(b"x" * UNSENT)
    assert stream.full
    with pytest.raises(BlockingIOError):
        stream.send(b"y")
