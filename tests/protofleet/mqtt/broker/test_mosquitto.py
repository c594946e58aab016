"""mosquitto's configuration, access rules and passwords: what they say, and what a real broker
makes of them.
"""

import base64
import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from protofleet.errors import UsageError
from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.broker.mosquitto import (
    Listening,
    Tls,
    acl_text,
    config_text,
    passes_as_client,
    passwords_text,
)
from protofleet.mqtt.link.link import Arrival, Connected, Denied, Lost, Will
from protofleet.mqtt.topics import Topics
from tests.linking import connect, eventually, poll_for, poll_until

T = Topics("orchard")
D = "ab" * 32
USERS = {"coordinator": "c", "camera-07": "7", "camera-08": "8"}


@pytest.fixture
def guarded(start_broker):
    return start_broker(users=USERS, fleet="orchard")


def connected(links, broker, user, name=None, **settings):
    link = links(broker.address, name or user, own=False, login=(user, USERS[user]), **settings)
    link.subscribe(T.for_coordinator() if user == "coordinator" else T.for_device(user))
    connect(link)
    return link


def topics_until(link, until):
    """Topics that arrive before the one that ends the test."""
    events = poll_until(
        link, lambda polled: any(isinstance(e, Arrival) and e.topic == until for e in polled)
    )
    return [e.topic for e in events if isinstance(e, Arrival)]


def test_a_device_writes_as_itself_and_as_nobody_else(guarded, links):
    coordinator = connected(links, guarded, "coordinator")
    camera = connected(links, guarded, "camera-07")
    own = [
        T.state("camera-07"),
        f"{T.prefix}/d/camera-07/reported",
        T.upload("camera-07", 1),
        T.chunk_request("camera-07"),
        T.upload_chunk("camera-07", D, 0),
        f"{T.prefix}/d/camera-07/ack",
        T.report("camera-07"),
    ]
    shown = [T.sees("camera-07", "door.bin")]
    foreign = [topic.replace("camera-07", "camera-08") for topic in own + shown]
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
    for topic in shown + own:
        ticket = camera.publish(topic, b"x")
        assert ticket.wait(10)
        assert ticket.refused is None, topic
    assert topics_until(coordinator, own[-1]) == own


def test_another_client_id_does_not_help(guarded, links):
    victim = connected(links, guarded, "camera-08")
    thief = connected(links, guarded, "camera-07", name="camera-08")
    assert thief.publish(T.upload("camera-08", 1), b"x").wait(10)
    assert poll_for(thief, Denied)[0].topic == T.upload("camera-08", 1)
    assert victim.publish(T.upload("camera-08", 1), b"x").wait(10)
    assert not [
        event for event in victim.poll(0.5) if isinstance(event, Lost)
    ]  # its session was not taken over


def test_a_device_hears_what_is_for_all_and_for_itself_only(guarded, links):
    coordinator = connected(links, guarded, "coordinator")
    camera = connected(links, guarded, "camera-07")
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
    assert set(topics_until(camera, T.receipt("camera-07"))) == {
        T.own_state("camera-07"),
        T.shared_state,
        T.receipt("camera-07"),
    }


def test_home_assistant_sees_and_presses_and_nothing_else(start_broker, links):
    users = {**USERS, "homeassistant": "h"}
    broker = start_broker(users=users, fleet="orchard")
    camera, coordinator, home = (
        links(broker.address, name, own=False, login=(name, users[name]))
        for name in ("camera-07", "coordinator", "homeassistant")
    )
    home.subscribe([("#", 1)])
    camera.subscribe(T.for_home("camera-07"))
    for link in (camera, coordinator, home):
        connect(link)
    # A broker takes a connection's packets in order: what was subscribed to comes from here on.
    assert home.publish(T.state("camera-07"), b"x").wait(60)
    config = "homeassistant/{}/{}/answer/config".format
    for link, topic, allowed in (
        (camera, config("sensor", "camera-07"), True),
        (camera, config("sensor", "camera-08"), False),
        (camera, config("switch", "camera-07"), False),  # what would take orders from there
        (camera, T.sighting("camera-07"), True),
        (camera, T.sighting("camera-08"), False),
        (camera, T.press("camera-07", "contribute"), False),
        (coordinator, config("sensor", "camera-08"), True),
        (home, T.press("camera-07", "contribute"), True),
        (home, T.state("camera-07"), False),
        (home, T.upload("camera-07", 1), False),
        (home, config("sensor", "camera-07"), False),
    ):
        ticket = link.publish(topic, b"x")
        assert ticket.wait(60)
        assert bool(ticket.refused) is not allowed, topic
    for secret in (T.own_state("camera-07"), T.shared_state, T.round):
        assert coordinator.publish(secret, b"secret").wait(60)  # before what ends it
    camera.publish(T.home("camera-07"), b"{}")
    assert set(topics_until(home, T.home("camera-07"))) == {
        config("sensor", "camera-07"),
        config("sensor", "camera-08"),
        T.sighting("camera-07"),
        T.home("camera-07"),
    }
    press = T.press("camera-07", "contribute")
    assert topics_until(camera, press) == [press]


def test_a_will_obeys_the_rules_as_well(guarded, links, proxied):
    coordinator = connected(links, guarded, "coordinator")
    proxy, address = proxied(guarded)
    through = replace(guarded, address=address)
    connected(links, through, "camera-07", will=Will(T.state("camera-08"), b"lies"))
    connected(links, through, "camera-08", will=Will(T.state("camera-08"), b"truth"))
    proxy.refuse()
    proxy.cut()
    arrivals = poll_for(coordinator, Arrival)
    assert [(a.topic, a.payload) for a in arrivals] == [(T.state("camera-08"), b"truth")]


def lines(**listening):
    return config_text(Listening(**listening), Path("/data")).splitlines()


def test_nobody_needs_a_password_only_where_none_was_asked_for():
    assert "allow_anonymous true" in lines()
    plain_tls = Tls(Path("c"), Path("k"))
    assert "allow_anonymous true" in lines(tls=plain_tls)
    wanted = Tls(Path("c"), Path("k"), Path("ca"))
    for listening in ({"passwords": Path("p")}, {"tls": wanted}):
        config = lines(**listening)
        assert "allow_anonymous false" in config
        assert "use_username_as_clientid true" in config


def test_every_listener_is_as_safe_as_the_first():
    """Web sockets are a second way in: whatever holds for the one must hold for the other."""
    config = lines(port=8883, ws_port=8884, tls=Tls(Path("c"), Path("k"), Path("ca")))
    listeners = [n for n, line in enumerate(config) if line.startswith("listener")]
    assert [config[n] for n in listeners] == ["listener 8883 127.0.0.1", "listener 8884 127.0.0.1"]
    first, second = (config[n + 1 : n + 7] for n in listeners)
    assert first == second
    assert "require_certificate true" in first


def test_the_rules_name_one_fleet_and_nothing_that_is_no_fleet():
    assert "pattern write pf/1/orchard/d/%u/up/+\n" in acl_text("orchard")
    assert not [line for line in acl_text("orchard").splitlines() if "pf/1/+" in line]
    with pytest.raises(UsageError):
        acl_text("#")


def test_passwords_are_hashed_with_their_salt_in_mosquitto_s_format():
    salts = {"a": bytes(12), "b": bytes(range(12))}
    rows = passwords_text({"a": "secret", "b": "secret"}, salts).splitlines()
    assert "secret" not in "".join(rows)
    for name, row in zip("ab", rows, strict=True):
        user, _, encoded = row.partition(":")
        _, kind, rounds, salt, digest = encoded.split("$")
        assert (user, kind, base64.b64decode(salt)) == (name, "7", salts[name])
        again = hashlib.pbkdf2_hmac("sha512", b"secret", salts[name], int(rounds), 64)
        assert base64.b64decode(digest) == again


def test_it_is_found_where_an_ordinary_user_s_path_does_not_look(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(mosquitto, "FOLDERS", (str(tmp_path / "sbin"),))
    assert mosquitto.find() is None
    (tmp_path / "sbin").mkdir()
    (tmp_path / "sbin" / "mosquitto").touch()
    assert mosquitto.find() == str(tmp_path / "sbin" / "mosquitto")


def test_a_client_id_is_the_user_s_name_at_every_listener():
    config = lines(port=1883, ws_port=9001, passwords=Path("p"))
    listeners = [n for n, line in enumerate(config) if line.startswith("listener")]
    assert [config[n + 1] for n in listeners] == ["use_username_as_clientid true"] * 2


def test_the_coordinator_s_session_is_its_own_where_web_sockets_are_served_too(start_broker, links):
    """Written once, the rule holds for the last listener alone: the first was open to this."""
    broker = start_broker(Listening(port=0, ws_port=0), users=USERS, fleet="orchard")
    coordinator = connected(links, broker, "coordinator")
    for address in (broker.address, broker.ws_address):
        thief = links(address, "coordinator", own=False, login=("camera-07", USERS["camera-07"]))
        connect(thief)
        assert not [event for event in coordinator.poll(0.7) if isinstance(event, Lost)]
        thief.stop(patience=0.0)


def test_a_device_has_no_rights_in_another_fleet_by_default(start_broker, links):
    broker = start_broker(users=USERS)
    camera = connected(links, broker, "camera-07")
    for fleet, refused in (("fleet", False), ("orchard", True)):
        ticket = camera.publish(Topics(fleet).upload("camera-07", 1), b"x")
        assert ticket.wait(10)
        assert bool(ticket.refused) is refused


@pytest.fixture
def issue(tmp_path):
    """Issues certificates that say what they are for, or nothing of it."""
    now = datetime.now(UTC)

    def named(text):
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

    def write(name, key, signed):
        kinds = serialization
        plain = (kinds.Encoding.PEM, kinds.PrivateFormat.PKCS8, kinds.NoEncryption())
        (tmp_path / f"{name}.key").write_bytes(key.private_bytes(*plain))
        (tmp_path / f"{name}.pem").write_bytes(signed.public_bytes(kinds.Encoding.PEM))

    def certificate(file, subject, *usages, issuer=None):
        key = ec.generate_private_key(ec.SECP256R1())
        made = (
            x509.CertificateBuilder()
            .subject_name(named(subject))
            .issuer_name(named("authority"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=9))
            .add_extension(x509.BasicConstraints(issuer is None, None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        )
        if usages:
            made = made.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        write(file, key, made.sign(issuer or key, hashes.SHA256()))
        return key

    authority = certificate("ca", "authority")

    def issued(file, subject, *usages):
        certificate(file, subject, *usages, issuer=authority)
        return Tls(tmp_path / f"{file}.pem", tmp_path / f"{file}.key", tmp_path / "ca.pem")

    return issued


SERVER, CLIENT = (
    x509.ExtendedKeyUsageOID.SERVER_AUTH,
    x509.ExtendedKeyUsageOID.CLIENT_AUTH,
)


def test_whether_the_broker_s_own_certificate_lets_one_in_can_be_told(issue, tmp_path):
    assert passes_as_client(issue("a", "coordinator", SERVER)) is None
    assert passes_as_client(issue("b", "coordinator")) == "coordinator"
    assert passes_as_client(issue("c", "host", SERVER, CLIENT)) == "host"
    mine = issue("d", "host")
    assert passes_as_client(replace(mine, ca=tmp_path / "a.pem")) is None  # of another authority
    assert passes_as_client(replace(mine, cert=tmp_path / "none")) is None


def test_a_server_s_certificate_is_no_client_s_to_a_real_broker(issue, start_broker, links):
    broker = start_broker(Listening(port=0, tls=issue("broker", "localhost", SERVER)))
    for file, usage, welcome in (("s", SERVER, False), ("c", CLIENT, True)):
        tls = issue(file, "coordinator", usage)
        reach = replace(broker.address, host="localhost", ca=tls.ca, cert=tls.cert, key=tls.key)
        link = links(reach, file)
        link.start()
        event = poll_until(link, bool)[0]
        assert isinstance(event, Connected) is welcome, event
