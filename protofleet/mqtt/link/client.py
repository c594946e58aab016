"""A paho client made to our measure: versions, credentials, TLS, will, and the few things paho
leaves to others.
"""

from __future__ import annotations

import logging
import socket
import ssl
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from protofleet.mqtt.address import Address
from protofleet.mqtt.link.events import LinkSettings
from protofleet.mqtt.link.stream import Stream

if TYPE_CHECKING:
    from paho.mqtt.client import Client
    from paho.mqtt.properties import Properties

PATIENCE = 10.0  # seconds for each step of getting in


@dataclass(frozen=True)
class ClientSettings:
    """What a link connects with, each time."""

    address: Address
    client_id: str
    link: LinkSettings


def tls_context(address: Address) -> ssl.SSLContext:
    """Made anew for each connection: certificates are renewed while a fleet runs."""
    context = ssl.create_default_context(cafile=None if address.ca is None else str(address.ca))
    if address.cert is not None and address.key is not None:
        context.load_cert_chain(address.cert, address.key)
    if address.unchecked:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def build(settings: ClientSettings, five: bool, clean: bool, complaint: Complaint) -> Client:
    """A client that is not connected yet and does nothing by itself."""
    from paho.mqtt.client import Client
    from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

    class Streaming(Client):
        """paho, on a socket that reads and writes in large pieces."""

        def _create_socket(self) -> Any:
            return Stream(super()._create_socket())

    address, will = settings.address, settings.link.will
    client = Streaming(
        CallbackAPIVersion.VERSION2,
        client_id=settings.client_id,
        clean_session=None if five else clean,
        protocol=MQTTProtocolVersion.MQTTv5 if five else MQTTProtocolVersion.MQTTv311,
        transport="websockets" if address.websockets else "tcp",
        # The link decides when to connect again, and its owner when a message is safe.
        reconnect_on_failure=False,
        manual_ack=True,
    )
    # No bound of paho's own: the outbox counts what is in flight, and paho's queue would be a
    # second one that is lost with the connection.
    client.max_inflight_messages = 0
    client.connect_timeout = PATIENCE
    client.enable_logger(complaint.logger)
    if address.websockets:
        client.ws_set_options(path=address.path)
    if address.tls:
        client.tls_set_context(tls_context(address))
    if address.username is not None:
        client.username_pw_set(address.username, address.password)
    if callable(will):
        will = will()
    if will is not None:
        client.will_set(will.topic, will.payload, will.qos, will.retain)
    client.on_socket_open = _no_delay
    return client


def connect(client: Client, settings: ClientSettings, five: bool, clean: bool) -> None:
    """Reach the broker and ask to be let in; raises OSError and ValueError."""
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    address, link = settings.address, settings.link
    if not five:
        client.connect(address.host, address.port, link.keepalive)
        return
    wishes = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    wishes.SessionExpiryInterval = link.session_expiry
    wishes.ReceiveMaximum = link.receive_maximum
    wishes.MaximumPacketSize = link.max_packet
    client.connect(address.host, address.port, link.keepalive, clean_start=clean, properties=wishes)


def properties(expiry: float | None, correlation: bytes | None) -> Properties | None:
    """What goes with a publication, where the protocol has a place for it."""
    if expiry is None and correlation is None:
        return None
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    fields = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    if expiry is not None:
        # 0 would mean "not worth sending", and it still is, for less than a second.
        fields.MessageExpiryInterval = max(1, round(expiry))
    if correlation is not None:
        fields.CorrelationData = correlation
    return fields


class Complaint:
    """The last error paho logged: it says why a socket failed, which its callbacks do not."""

    def __init__(self) -> None:
        self.words: str | None = None
        # Made directly, it belongs to no tree of loggers, so nothing is printed anywhere.
        self.logger = logging.Logger("link", logging.ERROR)
        handler = logging.Handler()
        handler.emit = self._note  # type: ignore[method-assign]
        self.logger.addHandler(handler)

    def _note(self, record: logging.LogRecord) -> None:
        self.words = record.getMessage()


def stream(client: Client) -> Stream | None:
    """What the client talks through, while it is connected."""
    sock = client.socket()
    return sock if isinstance(sock, Stream) else None


def _no_delay(client: Client, _: Any, sock: Any) -> None:
    """Small packets go at once; the wrapper around web sockets has no such option, so go by the
    descriptor.
    """
    raw = socket.socket(fileno=sock.fileno())
    try:
        if raw.family != socket.AF_UNIX:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    finally:
        raw.detach()


def hang_up(client: Client) -> None:
    """Say goodbye if the socket takes it at once, and close."""
    # The farewell of a link that stops is still in the buffer: give the system a second for it.
    deadline = time.monotonic() + 1.0
    through = stream(client)
    while through is not None and through.waiting and time.monotonic() < deadline:
        through.flush()
        time.sleep(0.001)
    client.disconnect()


def plain(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text or type(error).__name__
