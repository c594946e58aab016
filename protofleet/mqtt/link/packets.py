"""The packets that come and go with every upload, read and written by hand: paho takes ten times as
long over each.

Only what is plain is dealt with here (no properties, QoS 0 and 1); the rest is None, and paho's.
"""

from __future__ import annotations

from typing import NamedTuple

PUBLISH, RETAIN, QOS1, QOS2 = 0x30, 1, 2, 4
LONGEST = 2**16 - 1


class Delivery(NamedTuple):
    """A publication that came (topic None: no text); `packet` is to be acknowledged, at `end`
    begins the next.
    """

    topic: str | None
    payload: bytes
    qos: int
    retain: bool
    packet: int
    end: int


def frame(data: bytes, at: int) -> tuple[int, int] | None:
    """Where the packet that begins here has its body, and where it ends; None while its length is
    not there.
    """
    size = 0
    # The remaining length, MQTT 5 section 1.5.5: seven bits a byte, the lowest first, four at most.
    for position in range(4):
        here = at + 1 + position
        if here >= len(data):
            return None
        size |= (data[here] & 127) << 7 * position
        if data[here] < 128:
            return here + 1, here + 1 + size
    return at + 5, at + 6  # a length that cannot be, for paho to refuse


def delivery(data: bytes, at: int, five: bool) -> Delivery | None:
    """The publication that begins here, if it is plain and whole."""
    if at >= len(data) or (head := data[at]) & 0xF0 != PUBLISH or head & QOS2:
        return None
    bounds = frame(data, at)
    if bounds is None or bounds[1] > len(data):
        return None
    (body, end), qos = bounds, (head & QOS1) >> 1
    # Length of the topic, topic, packet id (QoS 1 only), length of the properties (MQTT 5 only),
    # properties, payload. No topic means an alias of one; both are for paho.
    topic = body + 2
    packet = topic + int.from_bytes(data[body:topic], "big")
    rest = packet + 2 * qos + five
    if packet == topic or rest > end or (five and data[rest - 1]):
        return None
    number = int.from_bytes(data[packet : packet + 2], "big") if qos else 0
    try:
        name = data[topic:packet].decode()
    except UnicodeDecodeError:
        name = None
    return Delivery(name, data[rest:end], qos, bool(head & RETAIN), number, end)


def puback(packet: int) -> bytes:
    """The acknowledgement of a delivery: success needs no reason and no properties in either
    version.
    """
    return b"\x40\x02" + packet.to_bytes(2, "big")


def publish(topic: str, payload: bytes, retain: bool, five: bool) -> bytes | None:
    """A publication of QoS 0; None where paho has to say what is wrong with it."""
    name = topic.encode()
    if not name or len(name) > LONGEST or b"+" in name or b"#" in name:
        return None
    rest = 2 + len(name) + five + len(payload)
    head = bytearray((PUBLISH | retain,))
    while rest > 127:
        head.append(rest & 127 | 128)
        rest >>= 7
    head.append(rest)
    return b"".join((head, len(name).to_bytes(2, "big"), name, b"\0" if five else b"", payload))
