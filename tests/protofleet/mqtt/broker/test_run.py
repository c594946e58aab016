"""A broker of our own: up when the block begins, down when it ends, its secrets private."""

import os
import socket

import pytest

from protofleet.errors import BrokerError
from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.broker.mosquitto import Listening, Tls
from protofleet.mqtt.broker.run import running_broker
from tests.linking import connect, link_to
from tests.protofleet.mqtt.conftest import needs


def test_a_broker_that_cannot_start_says_why(start_broker, mosquitto_broker, tmp_path):
    with pytest.raises(BrokerError, match="Address already in use"):
        start_broker(Listening(port=mosquitto_broker.address.port))
    with pytest.raises(BrokerError):
        start_broker(Listening(port=0, tls=Tls(tmp_path / "none.pem", tmp_path / "none.key")))
    with pytest.raises(BrokerError, match="this machine only"):
        start_broker(Listening("0.0.0.0", 0), prefer="embedded")


def listens(address):
    try:
        socket.create_connection((address.host, address.port), timeout=2).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("kind", ["mosquitto", "embedded"])
def test_it_is_up_inside_the_block_and_down_after_it(kind, tmp_path):
    needs(kind)
    with running_broker(tmp_path, Listening(port=0), prefer=kind) as broker:
        assert (broker.kind, broker.alive) == (kind, True)
        assert listens(broker.address)
    assert not broker.alive
    assert not listens(broker.address)


@pytest.mark.parametrize("kind", ["mosquitto", "embedded"])
def test_users_get_in_by_their_password_and_their_files_are_for_us_alone(kind, tmp_path):
    needs(kind)
    folder = tmp_path / "broker"
    with running_broker(folder, users={"camera-07": "s3cr3t"}, prefer=kind) as broker:
        link = link_to(broker.address, "camera-07", login=("camera-07", "s3cr3t"))
        connect(link)
        link.stop()
    secrets = [path for path in folder.iterdir() if path.name in ("passwords", "acl")]
    assert secrets
    for path in secrets:
        assert path.stat().st_mode & 0o077 == 0
        assert b"s3cr3t" not in path.read_bytes()
    assert folder.stat().st_mode & 0o077 == 0


def test_a_link_in_the_place_of_a_secret_is_not_followed(tmp_path):
    needs("mosquitto")
    victim = tmp_path / "victim"
    victim.write_text("precious")
    folder = tmp_path / "broker"
    folder.mkdir()
    (folder / "passwords").symlink_to(victim)
    with running_broker(folder, users={"a": "b"}, prefer="mosquitto"):
        assert victim.read_text() == "precious"
        assert not (folder / "passwords").is_symlink()


@pytest.mark.parametrize("listening", [Listening(port=0, ws_port=0), Listening("::1", 0)])
def test_any_port_will_do_and_both_families(listening, tmp_path):
    with running_broker(tmp_path, listening, prefer="embedded") as broker:
        assert broker.address.host == listening.host
        assert broker.address.port
        if listening.ws_port is not None:
            assert broker.ws_address.port not in (0, broker.address.port)
            assert listens(broker.ws_address)


def test_without_mosquitto_the_embedded_one_serves_unless_mosquitto_is_wanted(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(mosquitto, "find", lambda: None)
    with running_broker(tmp_path) as broker:
        assert broker.kind == "embedded"
    with (
        pytest.raises(BrokerError, match="not installed"),
        running_broker(tmp_path, prefer="mosquitto"),
    ):
        pass


def test_a_broker_that_dies_is_seen(tmp_path):
    with running_broker(tmp_path, prefer="embedded") as broker:
        os.kill(broker.pid, 9)
        broker.process.wait(20)
        assert not broker.alive
