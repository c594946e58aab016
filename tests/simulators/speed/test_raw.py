"""MQTT by plain sockets: packets as the standard has them, whole ones only."""

import os
import socket
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.packettypes import PacketTypes

from protofleet import wire
from protofleet.errors import FleetError
from protofleet.mqtt.topics import Topics
from simulators.speed import raw

TOPICS = Topics("bench")


@pytest.mark.parametrize(
    ("length", "head"),
    [(0, "00"), (127, "7f"), (128, "8001"), (16_383, "ff7f"), (16_384, "808001")],
)
def test_the_length_is_written_as_the_standard_has_it(length, head):
    packet = raw.packet(0x30, bytes(length))
    assert packet[1 : len(packet) - length].hex() == head


@given(
    st.lists(st.tuples(st.text(max_size=20), st.binary(max_size=300)), max_size=5),
    st.integers(1, 40),
)
def test_publications_are_read_whole_however_they_are_cut(publications, step):
    stream = b"".join(raw.packet(0x30, raw.text(t) + body) for t, body in publications)
    stream += raw.packet(0x90, b"\0\1\0")  # a SUBACK, which is none
    data, read = bytearray(), []
    for at in range(0, len(stream), step):
        data += stream[at : at + step]
        read += list(raw.publishes(data))
    assert read == publications
    assert not data


def test_an_upload_is_a_publication_of_qos_1():
    packet = raw.upload(TOPICS, "a", 3, 258, b"payload")
    assert packet[0] >> 4 == PacketTypes.PUBLISH
    assert packet[0] & 0b110 == 0b010
    topic = raw.text(TOPICS.upload("a", 3))
    assert packet.endswith(topic + b"\x01\x02" + b"payload")


def test_a_birth_says_what_a_device_says():
    packet = raw.birth(TOPICS, "a")
    assert packet[0] & 1, "not retained"
    start = packet.index(b"\0\1", len(TOPICS.state("a"))) + 2
    message = wire.decode(packet[start:])
    assert (message.envelope.t, message.envelope.agent) == ("birth", "a")
    assert message.body["online"] is True


def test_a_broker_that_lets_nobody_in_is_an_error():
    server = socket.create_server(("127.0.0.1", 0))

    def refuse():
        connection, _ = server.accept()
        connection.recv(100)
        connection.sendall(b"\x10\0\0\0")
        connection.close()

    threading.Thread(target=refuse, daemon=True).start()
    with pytest.raises(FleetError, match="did not let the bench in"):
        raw.connected("127.0.0.1", server.getsockname()[1], "x")
    server.close()


def test_waiting_has_an_end():
    answers = iter([False, True])
    raw.until(lambda: next(answers), 5)
    with pytest.raises(FleetError, match=r"nothing came in 0\.05 seconds"):
        raw.until(lambda: False, 0.05)


def test_processor_time_is_what_the_process_would_say_itself():
    sum(range(3_000_000))
    assert raw.cpu(os.getpid()) == pytest.approx(time.process_time(), abs=0.1)


def test_memory_that_was_given_back_is_in_the_peak_alone():
    code = (
        "block = bytearray(b'x') * (100 << 20); print(flush=True); input();"
        "del block; print(flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        process.stdout.readline()
        full = raw.rss(process.pid)
        process.stdin.write("\n")
        process.stdin.flush()
        process.stdout.readline()
        assert full - raw.rss(process.pid) == pytest.approx(100, abs=5)
        assert raw.peak(process.pid) == pytest.approx(full, abs=5)
        process.kill()
