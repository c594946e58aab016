"""A channel through a real broker: what a device that follows it ends up with."""

import json
import subprocess
import sys
from hashlib import sha256
from io import StringIO

import numpy as np
import pytest

from edge_agent.inference.bundle import open_bundle
from edge_agent.inference.classifier import Classifier
from edge_agent.updates import cache, listener
from protofleet.exchange import archive
from protofleet.exchange.published import About, Bank
from protofleet.mqtt.address import Address
from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.broker.run import running_broker
from protofleet.mqtt.link.events import Arrival
from protofleet.mqtt.topics import Topics
from protofleet.util.logs import Log
from protofleet.values.prototypes import Prototypes
from tests.bundles import digits
from tests.coordinator.made import packed_bundle
from tests.linking import eventually
from tests.serving import coordinator, frozen, told

needs_broker = pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")


X = digits().x[:40]


@pytest.fixture
def broker(tmp_path):
    with running_broker(tmp_path / "broker", prefer="mosquitto") as found:
        yield str(found.address)


def broken(source, path):
    """A bundle with the right hashes whose self-test fails."""
    found = open_bundle(source)
    arrays = found.arrays("selftest.npz")
    arrays = {name: a if name == "image" else a * 2 for name, a in arrays.items()}
    np.savez(path.with_suffix(".npz"), **arrays)
    files = {**found.files, "selftest.npz": path.with_suffix(".npz").read_bytes()}
    manifest = dict(archive.read(source).document)
    manifest["files"] = {name: sha256(data).hexdigest() for name, data in files.items()}
    path.write_bytes(archive.pack({archive.MANIFEST: json.dumps(manifest).encode(), **files}))
    return path


@needs_broker
def test_a_follower_of_another_lineage_fetches_the_bundle_in_pieces_and_is_whole(
    own, bundles, broker, tmp_path
):
    classifier, due = Classifier(own), Classifier(bundles[1]).look(X)
    with coordinator(broker, tmp_path / "c", 2048):
        with listener.following(
            classifier,
            own,
            listener.Channel(Address.parse(broker), "stable", "f"),
            wait=False,
            log=Log(StringIO()),
        ):
            before = classifier.look(X)
            assert not np.array_equal(before.features.shape, due.features.shape)
            assert frozen(tmp_path / "c", bundles[1])["bundle"] == open_bundle(bundles[1]).digest
            eventually(lambda: classifier.bundle.digest == open_bundle(bundles[1]).digest)
            assert np.array_equal(classifier.look(X).features, due.features)
            assert classifier.look(X).best == due.best
        late = Classifier(own)  # it comes when all has been said
        with listener.following(
            late,
            own,
            listener.Channel(Address.parse(broker), "stable", "f"),
            wait=True,
            log=Log(StringIO()),
        ):
            assert late.look(X).best == due.best
    again = Classifier(own)
    cache.settled(again, own)  # and without any broker
    assert again.look(X).best == due.best


@needs_broker
def test_one_that_must_not_fetch_stays_and_says_so_in_one_line(own, bundles, broker, tmp_path):
    classifier, log = Classifier(own), StringIO()
    with coordinator(broker, tmp_path / "c"):
        frozen(tmp_path / "c", bundles[1])
        with listener.following(
            classifier,
            own,
            listener.Channel(Address.parse(broker), "stable", "f"),
            wait=True,
            fetch=False,
            log=Log(log),
        ):
            assert classifier.bundle.digest == open_bundle(own).digest
    (line,) = [
        line
        for line in log.getvalue().splitlines()
        if "lineage" in line or "prototypes are of" in line
    ]
    assert "those in use stay" in line
    assert not cache.fleet_file(own).exists()


@needs_broker
def test_a_bundle_that_fails_its_self_test_is_refused_once_and_the_old_one_stays(
    own, bundles, broker, tmp_path
):
    classifier, log = Classifier(own), StringIO()
    follower = listener.following(
        classifier,
        own,
        listener.Channel(Address.parse(broker), "stable", "f"),
        wait=False,
        log=Log(log),
    )
    with coordinator(broker, tmp_path / "c", 4096), follower:
        before = classifier.in_use
        frozen(tmp_path / "c", broken(bundles[1], tmp_path / "broken.pfb"))
        eventually(lambda: "self-test fails" in log.getvalue())
        told(tmp_path / "c", what="rename", name="0", to="nought")  # the state comes again
        told(tmp_path / "c", what="rename", name="1", to="one")
        assert classifier.in_use is before
        frozen(tmp_path / "c", bundles[1])  # and a sound one is taken after it
        eventually(lambda: classifier.bundle.digest == open_bundle(bundles[1]).digest)
    assert log.getvalue().count("self-test fails") == 1


@needs_broker
def test_a_bundle_without_a_graph_is_refused(own, broker, tmp_path):
    classifier, log = Classifier(own), StringIO()
    bank = Bank(
        About("extractor:x", ("a",)), Prototypes(np.array([0]), np.ones((1, 12), np.float32))
    )
    with coordinator(broker, tmp_path / "c"):
        frozen(tmp_path / "c", packed_bundle(tmp_path / "empty.pfb", bank))
        with listener.following(
            classifier,
            own,
            listener.Channel(Address.parse(broker), "stable", "f"),
            wait=True,
            log=Log(log),
        ):
            pass
    assert classifier.bundle.digest == open_bundle(own).digest
    (line,) = [line for line in log.getvalue().splitlines() if "bundle cannot be used" in line]
    assert "manifest.json" in line


@needs_broker
def test_the_command_answers_with_the_fleets_bundle(own, bundles, broker, tmp_path):
    from PIL import Image

    Image.fromarray(X[0, ..., 0]).save(tmp_path / "photo.png")
    command = [
        sys.executable,
        "-m",
        "edge_agent",
        "infer",
        "--bundle",
        str(own),
        str(tmp_path / "photo.png"),
        "--json",
    ]
    with coordinator(broker, tmp_path / "c", 2048):
        frozen(tmp_path / "c", bundles[1])
        run = subprocess.run(
            [*command, "--follow", broker], capture_output=True, text=True, check=True
        )
    assert json.loads(run.stdout)["state"] != open_bundle(own).manifest.state
    assert (
        json.loads(run.stdout)["answers"][0]["label"] == Classifier(bundles[1]).look(X[:1]).best[0]
    )
    offline = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(offline.stdout) == json.loads(run.stdout)


class OneByOne:
    """A link that brings these messages, and then nothing."""

    address = "nowhere"

    def __init__(self, payloads):
        self.payloads = list(payloads)

    def poll(self, wait):
        topic = "pf/1/f/g/stable/bundle"
        return [Arrival(topic, self.payloads.pop(0), 1, False, None)] if self.payloads else []

    def ack(self, *_):
        """Nobody waits for it."""

    wake = ack


class Stumbling:
    """What takes messages in, and stumbles over the first."""

    fetching, due, taken = False, None, 0

    def announced(self, parts, payload):
        if payload == b"evil":
            raise np.linalg.LinAlgError("Singular matrix")
        self.taken += 1
        return True

    def ask_due(self):
        """Nothing is on its way."""


def test_what_nobody_expects_of_a_message_does_not_end_the_listening():
    log, stumbling = StringIO(), Stumbling()
    link = OneByOne([b"evil", b"good"])
    made = listener.ChannelListener(stumbling, link, stumbling, Topics("f"), Log(log))
    made.start()
    assert made.wait()
    made.stop()
    assert stumbling.taken == 1
    assert "cannot be used: LinAlgError('Singular matrix')" in log.getvalue()
