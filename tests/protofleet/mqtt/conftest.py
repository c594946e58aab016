"""Brokers for the tests of this folder."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from dataclasses import replace

import pytest
import trustme

from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.broker.mosquitto import Listening
from protofleet.mqtt.broker.run import running_broker
from simulators.faults.proxy import Proxy
from tests.linking import link_to


def needs(kind: str) -> None:
    if kind == "mosquitto" and mosquitto.find() is None:
        pytest.skip("mosquitto is not installed")


@pytest.fixture(scope="session", params=["mosquitto", "embedded"])
def broker(request, tmp_path_factory):
    """One broker of each kind for all tests that leave it as they found it; clients there have
    names of their own.
    """
    needs(request.param)
    with running_broker(tmp_path_factory.mktemp("broker"), prefer=request.param) as broker:
        yield broker


@pytest.fixture(scope="session")
def mosquitto_broker(tmp_path_factory):
    needs("mosquitto")
    with running_broker(tmp_path_factory.mktemp("broker"), prefer="mosquitto") as broker:
        yield broker


@pytest.fixture
def links(request):
    """Makes links that are stopped when the test ends; names are the test's own."""
    with ExitStack() as stack:

        def make(address, name="one", own=True, **options):
            link = link_to(address, f"{request.node.name}-{name}" if own else name, **options)
            stack.callback(link.stop, patience=0.0)
            return link

        yield make


@pytest.fixture
def proxied():
    """Makes a breakable network in front of a broker: the proxy, and the address through it."""
    with ExitStack() as stack:

        def make(broker):
            proxy = stack.enter_context(Proxy(broker.address.port))
            return proxy, replace(broker.address, port=proxy.port)

        yield make


@pytest.fixture
def start_broker(tmp_path):
    """Starts brokers of the test's own."""
    with ExitStack() as stack:

        def make(
            listening=Listening(port=0),  # noqa: B008 (frozen)
            prefer="mosquitto",
            dir=tmp_path / "broker",
            **options,
        ):
            needs(prefer)
            return stack.enter_context(running_broker(dir, listening, prefer=prefer, **options))

        yield make


@pytest.fixture(scope="session")
def authority():
    return trustme.CA()


@pytest.fixture(scope="session")
def files(authority, tmp_path_factory):
    """Certificates as files: the authority's, the broker's, and one for each named client."""
    dir = tmp_path_factory.mktemp("certificates")

    def write(name, certificate):
        certificate.private_key_pem.write_to_path(str(dir / f"{name}.key"))
        for pem in certificate.cert_chain_pems:
            pem.write_to_path(str(dir / f"{name}.pem"), append=True)

    authority.cert_pem.write_to_path(str(dir / "ca.pem"))
    trustme.CA().cert_pem.write_to_path(str(dir / "stranger.pem"))
    write("broker", authority.issue_cert("127.0.0.1", "localhost"))
    write("camera-07", authority.issue_cert("camera-07", common_name="camera-07"))
    (dir / "broken.pem").write_text("not a certificate")
    return dir


@pytest.fixture
def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]
