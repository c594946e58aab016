"""A socket for tests, the bytes that paho sends through it, and topics and payloads to send."""

from hypothesis import strategies as st
from paho.mqtt.client import CallbackAPIVersion, Client
from paho.mqtt.enums import MQTTProtocolVersion

topics = st.text(
    st.characters(blacklist_categories=("Cs",), blacklist_characters="+#\0"),
    min_size=1,
    max_size=40,
)
payloads = st.one_of(st.binary(max_size=300), st.just(b"x" * 16_384))


class FakeSocket:
    """Hands out prepared pieces and keeps what it is sent."""

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
        fitting = bytes(data[: self.room])
        self.sent += fitting
        self.room -= len(fitting)
        return len(fitting)

    def close(self):
        self.closed = True


def by_paho(topic, payload, qos, retain, five):
    """The bytes that paho sends for a publication."""
    version = MQTTProtocolVersion.MQTTv5 if five else MQTTProtocolVersion.MQTTv311
    client = Client(CallbackAPIVersion.VERSION2, protocol=version)
    client._sock = sock = FakeSocket()
    client.publish(topic, payload, qos, retain)
    return bytes(sock.sent)
