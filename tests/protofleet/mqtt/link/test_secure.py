"""TLS, client certificates, web sockets, and access rules, with the real brokers."""

from dataclasses import replace

import pytest
import trustme

from protofleet.errors import BrokerError, LinkError
from protofleet.mqtt.broker.mosquitto import Listening, Tls
from protofleet.mqtt.link.link import Arrival, Denied, Lost, Refused, Will
from protofleet.mqtt.topics import Topics
from tests.linking import connect, eventually, poll_for, poll_until

T = Topics("orchard")
D = "ab" * 32
USERS = {"coordinator": "c", "camera-07": "7", "camera-08": "8"}


@pytest.fixture(scope="session")
def authority():
    return trustme.CA()


@pytest.fixture(scope="session")
def files(authority, tmp_path_factory):
    """Certificates as files: the authority's, the broker's, and one for each named client."""
    dir = tmp_path_factory.mktemp("certificates")

    def write(name, issued):
        issued.private_key_pem.write_to_path(str(dir / f"{name}.key"))
        for blob in issued.cert_chain_pems:
            blob.write_to_path(str(dir / f"{name}.pem"), append=True)

    authority.cert_pem.write_to_path(str(dir / "ca.pem"))
    trustme.CA().cert_pem.write_to_path(str(dir / "stranger.pem"))
    write("broker", authority.issue_cert("127.0.0.1", "localhost"))
    write("camera-07", authority.issue_cert("camera-07", common_name="camera-07"))
    (dir / "broken.pem").write_text("not a certificate")
    return dir


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


@pytest.fixture
def guarded(start_broker):
    return start_broker(users=USERS, fleet="orchard")


def client(links, broker, user, name=None, **how):
    link = links(broker.address, name or user, own=False, login=(user, USERS[user]), **how)
    link.subscribe(T.for_coordinator() if user == "coordinator" else T.for_device(user))
    connect(link)
    return link


def heard(link, until):
    """Topics that arrive before the one that ends the test."""
    seen = poll_until(
        link, lambda events: any(isinstance(e, Arrival) and e.topic == until for e in events)
    )
    return [e.topic for e in seen if isinstance(e, Arrival)]


def test_a_device_writes_as_itself_and_as_nobody_else(guarded, links):
    coordinator = client(links, guarded, "coordinator")
    camera = client(links, guarded, "camera-07")
    own = [
        T.state("camera-07"),
        f"{T.prefix}/d/camera-07/reported",
        T.upload("camera-07", 1),
        T.chunk_request("camera-07"),
        T.upload_chunk("camera-07", D, 0),
        f"{T.prefix}/d/camera-07/ack",
        T.report("camera-07"),
    ]
    foreign = [topic.replace("camera-07", "camera-08") for topic in own]
    fleet = [T.coordinator_state, T.round, T.shared_state, T.shared_chunk(D, 0), T.proto("stable")]
    orders = [
        T.own_state("camera-07"),
        T.receipt("camera-07"),
        f"{T.prefix}/d/camera-07/desired",
        f"{T.prefix}/d/camera-07/cmd",
    ]
    elsewhere = [Topics("other").upload("camera-07", 1), "x", "$SYS/x"]
    for topic in foreign + fleet + orders + elsewhere:
        ticket = camera.publish(topic, b"x", retain=True)
        assert ticket.wait(10)
        assert ticket.refused, topic
    for topic in own:
        ticket = camera.publish(topic, b"x")
        assert ticket.wait(10)
        assert ticket.refused is None, topic
    assert heard(coordinator, own[-1]) == own


def test_another_client_id_does_not_help(guarded, links):
    victim = client(links, guarded, "camera-08")
    thief = client(links, guarded, "camera-07", name="camera-08")
    assert thief.publish(T.upload("camera-08", 1), b"x").wait(10)
    assert poll_for(thief, Denied)[0].topic == T.upload("camera-08", 1)
    assert victim.publish(T.upload("camera-08", 1), b"x").wait(10)
    assert not [
        event for event in victim.poll(0.5) if isinstance(event, Lost)
    ]  # its session was not taken over


def test_a_device_hears_what_is_for_all_and_for_itself_only(guarded, links):
    coordinator = client(links, guarded, "coordinator")
    camera = client(links, guarded, "camera-07")
    camera.subscribe(
        [("#", 1), (T.own_state("camera-08"), 1), (T.upload("+", 1).replace("/1", "/+"), 1)]
    )
    eventually(lambda: camera.publish(T.report("camera-07"), b"x").wait(1))
    for topic in (
        T.own_state("camera-08"),
        T.receipt("camera-08"),
        T.own_state("camera-07"),
        T.shared_state,
        T.receipt("camera-07"),
    ):
        coordinator.publish(topic, b"x")
    assert set(heard(camera, T.receipt("camera-07"))) == {
        T.own_state("camera-07"),
        T.shared_state,
        T.receipt("camera-07"),
    }


def test_a_will_obeys_the_rules_as_well(guarded, links, proxied):
    coordinator = client(links, guarded, "coordinator")
    proxy, address = proxied(guarded)
    through = replace(guarded, address=address)
    client(links, through, "camera-07", will=Will(T.state("camera-08"), b"lies"))
    client(links, through, "camera-08", will=Will(T.state("camera-08"), b"truth"))
    proxy.refuse()
    proxy.cut()
    seen = poll_for(coordinator, Arrival)
    assert [(a.topic, a.payload) for a in seen] == [(T.state("camera-08"), b"truth")]


def test_a_broker_that_cannot_start_says_why(start_broker, mosquitto_broker, tmp_path):
    with pytest.raises(BrokerError, match="Address already in use"):
        start_broker(Listening(port=mosquitto_broker.address.port))
    with pytest.raises(BrokerError):
        start_broker(Listening(port=0, tls=Tls(tmp_path / "none.pem", tmp_path / "none.key")))
    with pytest.raises(BrokerError, match="this machine only"):
        start_broker(Listening("0.0.0.0", 0), prefer="embedded")
