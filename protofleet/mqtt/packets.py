"""The two packets there is one of for every upload, written by hand: paho takes ten times as long over each."""

from __future__ import annotations

LONGEST = 2**16 - 1


def puback(packet: int) -> bytes:
    """The acknowledgement of a delivery: success needs no reason and no properties in either version."""
    return b"\x40\x02" + packet.to_bytes(2, "big")


def publish(topic: str, payload: bytes, retain: bool, five: bool) -> bytes | None:
    """A publication of QoS 0 without properties; None where only paho knows what is wrong with it."""
    name = topic.encode()
    if not name or len(name) > LONGEST or b"+" in name or b"#" in name:
        return None
    rest = 2 + len(name) + five + len(payload)
    head = bytearray((0x31 if retain else 0x30,))
    while rest > 127:
        head.append(rest & 127 | 128)
        rest >>= 7
    head.append(rest)
    return b"".join((head, len(name).to_bytes(2, "big"), name, b"\0" if five else b"", payload))
