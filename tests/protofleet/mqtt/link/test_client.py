"""How a link gets in: TLS, client certificates, web sockets, passwords; and what goes with a
publication.
"""

import logging
import socket
import threading
from dataclasses import replace

import pytest

from protofleet.errors import LinkError
from protofleet.mqtt.address import Address
from protofleet.mqtt.broker.mosquitto import Listening, Tls
from protofleet.mqtt.link import client
from protofleet.mqtt.link.client import ClientSettings, Complaint
from protofleet.mqtt.link.link import Arrival, Denied, LinkSettings, Lost, Refused, Will
from protofleet.mqtt.topics import Topics
from tests.linking import connect, poll_for

T = Topics("orchard")


def tls(files, authority=None):
    """A broker with a certificate; with an authority, it wants one of the clients, too."""
    authority = authority and files / authority
    return Listening(port=0, tls=Tls(files / "broker.pem", files / "broker.key", authority))


def over_tls(broker, files, client=None, ca="ca"):
    cert, key = (
        (None, None) if client is None else (files / f"{client}.pem", files / f"{client}.key")
    )
    return replace(broker.address, ca=files / f"{ca}.pem", cert=cert, key=key)


def round_trip(link, topic):
    link.subscribe([(topic, 1)])
    connect(link)
    link.publish(topic, b"x" * 100_000)
    assert poll_for(link, Arrival)[0].payload == b"x" * 100_000


@pytest.mark.parametrize("kind", ["mosquitto", "embedded"])
def test_tls_carries_and_a_stranger_s_certificate_is_refused_in_words(
    kind, start_broker, links, files
):
    broker = start_broker(tls(files), prefer=kind)
    assert broker.address.scheme == "mqtts"
    round_trip(links(over_tls(broker, files)), "x")
    stranger = links(over_tls(broker, files, ca="stranger"), "stranger")
    stranger.start()
    assert "certificate" in poll_for(stranger, Refused)[0].reason


@pytest.mark.parametrize("kind", ["mosquitto", "embedded"])
def test_a_broker_that_wants_certificates_lets_nobody_in_without(kind, start_broker, links, files):
    broker = start_broker(tls(files, "ca.pem"), prefer=kind, fleet="orchard")
    without = links(over_tls(broker, files), "without")
    without.start()
    assert "certificate" in poll_for(without, Lost)[0].reason.lower()
    link = links(over_tls(broker, files, "camera-07"), "camera-07", own=False)
    connect(link)
    assert link.publish(T.upload("camera-07", 1), b"x").wait(10)
    if kind == "mosquitto":  # the certificate's name is the user's
        link.publish(T.upload("camera-08", 1), b"x")
        assert poll_for(link, Denied)[0].topic == T.upload("camera-08", 1)


def test_certificate_files_that_are_none_are_told_at_the_start(links, files, mosquitto_broker):
    link = links(replace(mosquitto_broker.address, scheme="mqtts", ca=files / "broken.pem"))
    with pytest.raises(LinkError, match="PEM"):
        link.start()


@pytest.mark.parametrize("secure", [False, True])
def test_web_sockets_carry(start_broker, links, files, secure):
    """Through the embedded broker, because not every build of mosquitto has them."""
    listening = tls(files) if secure else Listening(port=0)
    broker = start_broker(replace(listening, ws_port=0), prefer="embedded")
    assert broker.ws_address.scheme == ("wss" if secure else "ws")
    address = replace(broker.ws_address, ca=files / "ca.pem" if secure else None)
    round_trip(links(address, answer=0.5), "x")


def test_what_goes_with_a_publication_is_made_only_where_there_is_something():
    assert client.properties(None, None) is None
    both = client.properties(12.4, b"why")
    assert (both.MessageExpiryInterval, both.CorrelationData) == (12, b"why")
    assert client.properties(0.2, None).MessageExpiryInterval == 1  # 0 would mean: not any more


def test_the_last_error_is_kept_and_nothing_is_printed(caplog):
    complaint = Complaint()
    assert complaint.words is None
    with caplog.at_level(logging.DEBUG):
        complaint.logger.debug("chatter")
        for reason in ("first", "last"):
            complaint.logger.error("failed: %s", reason)
    assert (complaint.words, caplog.records) == ("failed: last", [])


def test_an_error_without_words_of_the_system_is_called_by_its_kind():
    assert client.plain(OSError(13, "Permission denied")) == "Permission denied"
    assert client.plain(ValueError("no such host")) == "no such host"
    assert client.plain(TimeoutError()) == "TimeoutError"


@pytest.mark.parametrize("five", [True, False])
def test_what_is_asked_for_is_in_the_first_packet(five):
    """Name, password, will, keep-alive; with MQTT 5 how long the session lasts and its limits."""
    link = LinkSettings(
        will=Will("gone", b"last words"),
        keepalive=77,
        session_expiry=0x01020304,
        receive_maximum=0x0506,
        max_packet=0x0708090A,
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = Address(
            "mqtt", "127.0.0.1", server.getsockname()[1], username="u-name", password="p-word"
        )
        settings = ClientSettings(address, "the-id", link)
        heard = []

        def listen():
            peer, _ = server.accept()
            with peer:
                heard.append(peer.recv(4096))

        thread = threading.Thread(target=listen)
        thread.start()
        made = client.build(settings, five, True, Complaint())
        client.connect(made, settings, five, True)
        client.stream(made).flush()
        thread.join(20)
        client.hang_up(made)
    (packet,) = heard
    assert packet[2:9] == b"\0\4MQTT" + bytes([5 if five else 4])
    for text in (b"the-id", b"gone", b"last words", b"u-name", b"p-word"):
        assert len(text).to_bytes(2, "big") + text in packet
    assert packet[10:12] == (77).to_bytes(2, "big")
    limits = (b"\x11\1\2\3\4", b"\x21\5\6", b"\x27\7\x08\x09\x0a")
    assert [limit in packet for limit in limits] == [five] * 3
