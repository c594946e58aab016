"""A fleet by invitation as people make it: commands, a real mosquitto, certificates."""

import json
import socket
import ssl
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from coordinator.cli import coordinator
from coordinator.cli.members_cmd import duration
from coordinator.config import household
from coordinator.journal.journal import Journal
from coordinator.service.control import ask
from edge_agent.cli import agent
from protofleet.errors import FleetError, UsageError
from protofleet.exchange.published import About, Bank
from protofleet.member import membership
from protofleet.mqtt.address import Address
from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.topics import Topics
from protofleet.values.prototypes import Prototypes
from tests.coordinator.made import packed_bundle
from tests.linking import connect, eventually, link_to

EYE = Bank(About("extractor:eye", ()), Prototypes([], np.zeros((0, 4))))
TOPICS = Topics("orchard")


def two_ports():
    """A free port whose next is free as well."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as first:
            port = first.getsockname()[1]
            try:
                socket.create_server(("127.0.0.1", port + 1)).close()
            except OSError:
                continue
            return port


def call(group, *words):
    answer = CliRunner().invoke(group, [str(word) for word in words])
    if answer.exception is not None and not isinstance(answer.exception, SystemExit):
        raise answer.exception
    return answer.stdout


@pytest.fixture
def fleet(tmp_path):
    """A coordinator with a broker of its own, and the first invitation."""
    if mosquitto.find() is None:
        pytest.skip("mosquitto is not installed")
    packed_bundle(tmp_path / "eye.pfb", EYE, input={"kind": "image", "shape": [8, 8, 1]})
    file, port = tmp_path / "fleet.toml", two_ports()
    file.write_text(
        f'[serve]\nfleet = "orchard"\n[broker]\nurl = "mqtts://127.0.0.1:{port}"\n'
        '[contract]\nextractor = "eye.pfb"\n'
    )
    token = call(coordinator, "invite", "camera-07", "--config", file).strip()
    log = (tmp_path / "log").open("w")
    process = subprocess.Popen(
        [sys.executable, "-m", "coordinator", "serve", "--config", str(file), "--with-broker"],
        stdout=log,
        stderr=log,
    )

    def connected():
        try:
            return ask(tmp_path / "coordinator-data", "status")["connected"]
        except FleetError:
            assert process.poll() is None, (tmp_path / "log").read_text()
            return False

    eventually(connected)
    yield file, token, port
    process.terminate()
    process.wait(20)
    log.close()


def lets_in(port, ca, cert, key):
    """Whether the broker answers who shows this certificate."""
    context = ssl.create_default_context(cafile=ca)
    context.load_cert_chain(cert, key)
    try:
        with (
            socket.create_connection(("127.0.0.1", port)) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
        ):
            secure.sendall(bytes([0x10, 16, 0, 4, *b"MQTT", 4, 2, 0, 10, 0, 4, *b"look"]))
            return secure.recv(4)[:1] == b"\x20"
    except OSError:
        return False


def at_the_broker(member, port, name):
    address = Address("mqtts", "127.0.0.1", port)
    ca, cert, key = member.certificates
    return link_to(replace(address, ca=ca, cert=cert, key=key), name)


def test_a_device_joins_works_under_its_name_alone_and_is_revoked(fleet, tmp_path):
    file, token, port = fleet
    said = call(agent, "join", token, "--data-dir", tmp_path / "a", "--wait", 30)
    assert "joined orchard as camera-07" in said
    member = membership.of_folder(tmp_path / "a")
    camera, coordinator_too = (at_the_broker(member, port, n) for n in ("camera-07", "coordinator"))
    camera.subscribe([(f"{TOPICS.prefix}/#", 1)])
    connect(camera)
    # Its certificate is its name, whatever it calls itself: it cannot take the coordinator's place.
    connect(coordinator_too)
    coordinator_too.stop(patience=0.0)
    ticket = camera.publish(TOPICS.coordinator_state, b"false", retain=True)
    assert ticket.wait(10)
    assert ticket.refused
    # Nor does a server's certificate open the door, and what was used lets nobody else in.
    files = tmp_path / "coordinator-data/trust/broker"
    assert lets_in(port, member.authority, member.certificate, member.key)
    assert not lets_in(port, member.authority, files / "broker.pem", files / "broker.key")
    with pytest.raises(FleetError, match="used already"):
        call(agent, "join", token, "--data-dir", tmp_path / "b", "--wait", 30)

    call(coordinator, "revoke", "camera-07", "--config", file)
    eventually(lambda: not lets_in(port, member.authority, member.certificate, member.key))
    camera.publish(TOPICS.state("camera-07"), b"x")  # at the connection that it has
    camera.stop(patience=1.0)
    listed = json.loads(call(coordinator, "devices", "--config", file, "--json"))["members"]
    assert [(row["name"], row["revoked"] is None) for row in listed] == [("camera-07", False)]
    status = ask(tmp_path / "coordinator-data", "status")
    assert status["refused"] == {}  # what it said after that came nowhere


def test_commands_before_there_is_a_fleet_and_words_that_are_wrong(tmp_path):
    where = ("--data-dir", tmp_path / "data")
    for words in (("devices",), ("revoke", "camera-07"), ("keys", "rotate")):
        with pytest.raises(UsageError, match="of no fleet by invitation"):
            call(coordinator, *words, *where)
    with pytest.raises(UsageError, match="--expires"):
        call(coordinator, "invite", "camera-07", "--expires", "soon", *where)
    token = call(coordinator, "invite", "camera-07", "--expires", "2d", *where)
    assert token.startswith("pf1.")
    call(coordinator, "invite", "camera", "--class-of", 3, *where)
    lines = call(coordinator, "devices", *where).splitlines()
    assert [line.split()[0] for line in lines] == ["camera-*", "camera-07"]
    call(coordinator, "keys", "init", tmp_path / "stick", *where)
    (tmp_path / "x.pfb").write_bytes(b"a bundle")
    words = call(coordinator, "keys", "sign", tmp_path / "stick", tmp_path / "x.pfb", *where)
    assert words.splitlines()[-1].startswith("1 bundles are listed")
    Journal(tmp_path / "data", lambda: 0.0).close()
    assert "0 here, 0 gone, 0 unsigned, 0 forged" in call(coordinator, "audit", *where)
    assert json.loads(call(coordinator, "audit", "--json", *where)) == []
    with pytest.raises(UsageError, match="not for camera-08"):
        call(agent, "join", token.strip(), "--id", "camera-08")
    assert "version 2" in call(coordinator, "keys", "rotate", *where)
    assert "version 3" in call(coordinator, "keys", "retire", *where)


def test_times_and_places():
    assert [duration(text) for text in ("90s", "30m", "7d")] == [90, 1800, 604_800]
    for text in ("", "1", "1w", "31d", "0h"):
        with pytest.raises(UsageError):
            duration(text)
    for url, reach in (
        ("mqtts://b", "mqtts://b:8884"),
        ("mqtts://[::1]:7", "mqtts://[::1]:8"),
        ("mqtt://b", "mqtt://b"),
    ):
        assert household(None, {"PROTOFLEET_BROKER_URL": url}).reach == (url, reach)
