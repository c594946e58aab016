"""MQTT by plain sockets, so that whoever talks to what is measured costs next to nothing; and what
a process uses.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from protofleet import wire
from protofleet.errors import FleetError
from protofleet.mqtt.topics import Topics

TICK = os.sysconf("SC_CLK_TCK")


def connected(host: str, port: int, name: str) -> socket.socket:
    """A client that the broker has let in, without a keep-alive."""
    connection = socket.create_connection((host, port), timeout=10)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # CONNECT of MQTT 3.1.1: level 4, clean session, keep-alive 0, so that silence is never a fault.
    connection.sendall(packet(0x10, text("MQTT") + b"\4\2\0\0" + text(name)))
    if connection.recv(4)[:1] != b"\x20":
        raise FleetError("the broker did not let the bench in")
    return connection


def packet(kind: int, body: bytes) -> bytes:
    """A packet of this first byte."""
    # The length is in groups of seven bits, the lowest first; the eighth says that more follow.
    length, head = len(body), bytearray([kind])
    while True:
        length, low = divmod(length, 128)
        head.append(low | (0x80 if length else 0))
        if not length:
            return bytes(head) + body


def text(text: str) -> bytes:
    """A text as packets hold it."""
    return len(text.encode()).to_bytes(2, "big") + text.encode()


def publishes(data: bytearray) -> Iterator[tuple[str, bytes]]:
    """Topics and payloads of whole PUBLISH packets of QoS 0, taken off the front."""
    while len(data) >= 2:
        size, shift, at = 0, 0, 1
        while at < len(data):
            size |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if not data[at - 1] & 128:
                break
        else:
            return
        if len(data) < at + size:
            return
        # Of other packets (acknowledgements) nothing is needed. There is no packet id at QoS 0, so
        # the payload begins right after the topic.
        if data[0] >> 4 == 3:
            length = int.from_bytes(data[at : at + 2], "big")
            yield data[at + 2 : at + 2 + length].decode(), bytes(data[at + 2 + length : at + size])
        del data[: at + size]


Seal = Callable[[str, str, bytes], bytes]  # a device's message for a topic, as it goes out


def unsigned(agent: str, topic: str, message: bytes) -> bytes:
    """As it is."""
    return message


def birth(topics: Topics, agent: str, seal: Seal = unsigned) -> bytes:
    """The packet of QoS 1 by which a device says that it is there; retained, as every birth is, so
    that a coordinator hears it that is only about to subscribe.
    """
    envelope = wire.Envelope(t="birth", fleet=topics.fleet, agent=agent, boot="b")
    body = wire.encode(envelope, {"online": True, "wire": [1], "classes": [], "samples": 1})
    topic = topics.state(agent)
    return packet(0x33, text(topic) + b"\0\1" + seal(agent, topic, body))


def upload(topics: Topics, agent: str, round: int, number: int, payload: bytes) -> bytes:
    """The packet of QoS 1 that carries an upload."""
    # 0x32: PUBLISH of QoS 1, neither a duplicate nor retained.
    return packet(0x32, text(topics.upload(agent, round)) + number.to_bytes(2, "big") + payload)


def until(there: Callable[[], bool], patience: float) -> None:
    """Wait for something to come about."""
    end = time.monotonic() + patience
    while not there():
        if time.monotonic() > end:
            raise FleetError(f"nothing came in {patience:g} seconds")
        time.sleep(0.02)


def cpu(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    # The name of the program, in parentheses, may hold blanks and parentheses itself.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def place(pid: int, processor: int) -> None:
    """Let a process run on this processor only, all of its threads."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        with suppress(ProcessLookupError):  # it may have ended meanwhile
            os.sched_setaffinity(int(thread), {processor})


def rss(pid: int) -> float:
    """Megabytes of memory that a process holds."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def peak(pid: int) -> float:
    """Megabytes of memory that a process held at most."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024
