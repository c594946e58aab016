"""What is read is whole packets however the bytes are cut, and what is sent leaves in large
pieces.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protofleet.mqtt.link.stream import READ, UNSENT, Stream
from tests.sockets import FakeSocket, by_paho, payloads, topics

PINGRESP = b"\xd0\x00"


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
    packets = []
    for _ in range(10_000):
        stream.fill()
        packets += [(d.topic, d.payload, d.qos, d.retain) for d in stream.deliveries(five)]
        if stream.ready:
            other = bytearray()
            while True:
                try:
                    other += stream.recv(5)
                except BlockingIOError:
                    break
                if not stream._begun:
                    break
            packets.append(bytes(other))
        if not stream._sock.pieces and not stream.pending:
            return packets
    raise AssertionError("it does not end")


messages = st.lists(st.tuples(topics, payloads, st.integers(0, 1), st.booleans()), max_size=4)


@given(messages, st.lists(st.integers(1, 40_000), max_size=12), st.booleans())
def test_what_comes_is_read_whole_however_it_is_cut(publications, sizes, five):
    data = b"".join(by_paho(*message, five) + PINGRESP for message in publications)
    expected = [packet for message in publications for packet in (message, PINGRESP)]
    assert read_all(Stream(FakeSocket(cut(data, sizes))), five) == expected


def test_a_large_packet_is_handed_over_in_pieces():
    data = by_paho("t", b"z" * (2 * READ), 1, False, True)
    stream = Stream(FakeSocket([data[:1000]]))
    stream.fill()
    assert stream.ready
    assert list(stream.deliveries(True)) == []
    assert stream.recv(2000) == data[:1000]


def test_how_a_connection_ends_is_told_where_paho_looks():
    ended, broken = Stream(FakeSocket([b""])), Stream(FakeSocket([ConnectionResetError("gone")]))
    ended.fill()
    assert ended.ready
    assert ended.recv(1) == b""
    broken.fill()
    with pytest.raises(ConnectionResetError):
        broken.recv(1)


def test_what_is_sent_leaves_at_once_in_order_and_waits_where_there_is_no_room():
    sock = FakeSocket(room=5)
    stream = Stream(sock)
    assert stream.send(b"abc") == 3
    stream.put(b"defg")
    assert not sock.sent
    stream.flush()
    assert (bytes(sock.sent), stream.waiting) == (b"abcde", True)
    sock.room = 10
    stream.close()
    assert (bytes(sock.sent), sock.closed) == (b"abcdefg", True)


def test_no_more_is_taken_than_can_wait():
    stream = Stream(FakeSocket(room=0))
    stream.send(b"x" * UNSENT)
    assert stream.full
    with pytest.raises(BlockingIOError):
        stream.send(b"y")
