"""The broker for a machine without mosquitto: whom it turns away at once, and when it ends."""

import asyncio
import socket
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protofleet.mqtt.broker.embedded import REFUSED, Peeked, first_bytes
from protofleet.mqtt.broker.run import running_broker
from tests.linking import eventually


def connect_packet(level):
    return bytes([0x10, 17, 0, 4, *b"MQTT", level, 2, 0, 10, 0, 5, *b"hello"])


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with running_broker(tmp_path_factory.mktemp("broker"), prefer="embedded") as broker:
        yield broker.address


def reply(address, data):
    with socket.create_connection((address.host, address.port), timeout=20) as client:
        client.sendall(data)
        return client.recv(4)


def test_mqtt_5_is_refused_at_once_and_3_1_1_is_let_in(address):
    before = time.monotonic()
    assert reply(address, connect_packet(5)) == REFUSED
    assert time.monotonic() - before < 5  # amqtt itself would wait for more
    assert reply(address, connect_packet(4)) == b"\x20\x02\x00\x00"


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"\x10\x0c\x00\x04HTTP\x04zzzzz"])
def test_who_speaks_something_else_is_turned_away_and_others_are_still_served(address, data):
    assert reply(address, data) in (REFUSED, b"")
    assert reply(address, connect_packet(4)) == b"\x20\x02\x00\x00"


@given(st.binary(max_size=40), st.integers(1, 20))
def test_what_was_looked_at_is_read_again_before_the_rest(rest, size):
    data = connect_packet(4) + rest

    async def read_all():
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        first, level = await first_bytes(reader)
        assert level == 4
        peeked, read = Peeked(first, reader), b""
        while len(read) < len(data):
            read += await peeked.read(min(size, len(data) - len(read)))
        assert await peeked.read(1) == b""
        return read

    assert asyncio.run(read_all()) == data


def test_it_ends_when_whoever_started_it_was_killed(tmp_path):
    """A parent that is killed runs no `finally`; its broker must not stay for ever."""
    code = (
        "import sys, time\nfrom pathlib import Path\n"
        "from protofleet.mqtt.broker.run import running_broker\n"
        "with running_broker(Path(sys.argv[1]), prefer='embedded') as broker:\n"
        "    print(broker.address.port, flush=True)\n"
        "    time.sleep(600)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    port = int(parent.stdout.readline())
    parent.kill()
    parent.wait(20)
    parent.stdout.close()

    def gone():
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) != 0

    eventually(gone)
