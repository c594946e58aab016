"""The proxy breaks a connection in the ways it says."""

import socket
import threading
import time
from contextlib import closing

import pytest

from simulators.faults.proxy import Proxy


@pytest.fixture
def echo():
    """The port of a server that says everything again."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                conn, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(conn,), daemon=True).start()

    def answer(conn: socket.socket) -> None:
        with conn:
            try:
                while data := conn.recv(65536):
                    conn.sendall(data)
            except OSError:
                pass

    threading.Thread(target=serve, daemon=True).start()
    with closing(server):
        yield server.getsockname()[1]


@pytest.fixture
def proxy(echo):
    with Proxy(echo) as proxy:
        yield proxy


@pytest.fixture
def client(proxy):
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as client:
        yield client


def said(client: socket.socket, data: bytes) -> bytes:
    client.sendall(data)
    return heard(client, len(data))


def heard(client: socket.socket, count: int) -> bytes:
    got = b""
    while len(got) < count:
        piece = client.recv(count - len(got))
        if not piece:
            raise ConnectionAbortedError
        got += piece
    return got


def silent(client: socket.socket) -> bool:
    client.settimeout(0.2)
    try:
        return not client.recv(1)
    except TimeoutError:
        return True
    finally:
        client.settimeout(5)


def test_it_carries_everything_both_ways_and_counts_it(proxy, client):
    data = bytes(range(256)) * 4000
    sender = threading.Thread(target=client.sendall, args=(data,))
    sender.start()
    assert heard(client, len(data)) == data
    sender.join()
    assert proxy.carried == {"up": len(data), "down": len(data)}


def test_a_cut_ends_connections_and_new_ones_work(proxy, client):
    said(client, b"x")
    proxy.cut()
    with pytest.raises(ConnectionResetError):
        client.recv(1)
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as again:
        assert said(again, b"again") == b"again"


@pytest.mark.parametrize("way", ["up", "down"])
def test_silence_is_no_error_and_ends_with_nothing_lost(proxy, client, way):
    said(client, b"x")
    proxy.silence(way)
    client.sendall(b"hello")
    assert silent(client)
    assert proxy.carried[way] == 1
    proxy.heal()
    assert heard(client, 5) == b"hello"


def test_refused_connections_are_reset_until_it_heals(proxy, client):
    said(client, b"x")
    proxy.refuse()
    where = ("127.0.0.1", proxy.port)
    with pytest.raises(ConnectionError), socket.create_connection(where, timeout=5) as refused:
        said(refused, b"x")
    proxy.heal()
    assert said(client, b"still here") == b"still here"


def test_a_delay_and_a_limit_take_their_time(proxy, client):
    proxy.delay(0.1)
    began = time.monotonic()
    said(client, b"x")
    assert time.monotonic() - began >= 0.2  # there and back
    proxy.heal()
    proxy.limit(100_000)
    began = time.monotonic()
    said(client, bytes(40_000))
    assert time.monotonic() - began >= 0.2  # all but the last piece


def test_an_unreachable_target_is_a_reset():
    with Proxy(1) as proxy:
        where = ("127.0.0.1", proxy.port)
        with pytest.raises(ConnectionError), socket.create_connection(where, timeout=5) as lost:
            heard(lost, 1)
