"""The commands that talk to a broker by hand, through one whose certificate an authority of one's
own has signed.
"""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
import trustme
from PIL import Image

from edge_agent.inference.bundle import open_bundle
from export.writer import Wanted, export, write
from protofleet import wire
from protofleet.exchange import contributed, published
from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.broker.mosquitto import Listening, Tls
from protofleet.mqtt.broker.run import running_broker
from protofleet.mqtt.topics import Topics
from tests.bundles import device, digits
from tests.linking import connect, eventually, link_to

pytestmark = pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")


@pytest.fixture
def broker(tmp_path):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    issued = authority.issue_cert("127.0.0.1", common_name="broker")
    issued.private_key_pem.write_to_path(str(tmp_path / "broker.key"))
    for blob in issued.cert_chain_pems:
        blob.write_to_path(str(tmp_path / "broker.pem"), append=True)
    tls = Tls(tmp_path / "broker.pem", tmp_path / "broker.key")
    with running_broker(
        tmp_path / "broker", Listening(port=0, tls=tls), prefer="mosquitto"
    ) as running:
        yield replace(running.address, ca=tmp_path / "ca.pem")


@pytest.fixture
def bundle(tmp_path):
    write(export(device(), Wanted(by="prototype", freeze=True)), tmp_path / "bundle")
    return tmp_path / "bundle"


@pytest.fixture
def photo(tmp_path):
    Image.fromarray(digits().x[0][..., 0]).save(tmp_path / "photo.png")
    return str(tmp_path / "photo.png")


def edge_agent(*words):
    return subprocess.run(
        [sys.executable, "-m", "edge_agent", *words], capture_output=True, text=True, check=False
    )


def test_infer_follows_with_the_authority_s_file_and_says_what_is_wrong_without(
    broker, bundle, photo
):
    bank = published.without(published.read((bundle / "prototypes.cbor").read_bytes()).bank, ["9"])
    link = link_to(broker, "coordinator")
    connect(link)
    try:
        message = published.write(bank, wire.Envelope("global", "f", "r", round=9), "float32")
        ticket = link.publish(Topics("f").proto("stable"), message, retain=True)
        eventually(lambda: ticket.done)
    finally:
        link.stop()
    asked = [
        "infer",
        "--bundle",
        str(bundle),
        "--follow",
        str(broker),
        "--fleet",
        "f",
        "--json",
        photo,
    ]
    followed = edge_agent(*asked, "--ca", str(broker.ca))
    assert json.loads(followed.stdout)["state"] != open_bundle(bundle).manifest.state
    assert "new prototypes" in followed.stderr
    stranger = edge_agent(*asked)
    assert "certificate does not hold" in stranger.stderr
    assert "Traceback" not in stranger.stderr


def test_an_offer_comes_to_the_coordinator(broker, bundle, photo):
    heard = link_to(broker, "coordinator")
    topics = Topics("f")
    heard.subscribe([(topics.upload("device-a", 0), 1)])
    connect(heard)
    offer = [
        "enroll",
        "--bundle",
        str(bundle),
        "--label",
        "owl",
        "--minimum",
        "1",
        "--offer",
        str(broker),
        "--fleet",
        "f",
    ]
    command = [
        sys.executable,
        "-m",
        "edge_agent",
        *offer,
        "--id",
        "device-a",
        "--ca",
        str(broker.ca),
        photo,
    ]
    asking = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        came = []
        eventually(
            lambda: came.extend(e for e in heard.poll(0.2) if hasattr(e, "payload")) or bool(came)
        )
        offered = wire.decode(came[0].payload)
        receipt = {"status": "accepted", "round": 0, "digest": offered.digest, "words": ""}
        answer = wire.Envelope("receipt", "f", offered.envelope.run, agent="device-a")
        heard.publish(topics.receipt("device-a"), wire.encode(answer, receipt))
        said, wrong = asking.communicate(timeout=30)
    finally:
        asking.kill()
        heard.stop()
    assert "every following device of this lineage knows it now" in said, wrong
    assert contributed.read(came[0].payload).contribution.samples == 1


def test_a_missing_file_is_one_line(broker, bundle, photo):
    said = edge_agent(
        "infer", "--bundle", str(bundle), "--follow", str(broker), "--ca", "/nowhere/ca.pem", photo
    )
    assert said.returncode == 2
    assert said.stderr.splitlines() == ["error: CA file /nowhere/ca.pem is not there (usage)"]
