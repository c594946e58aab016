"""A class from a few photos on one device, and on the others through a real broker and a real coordinator's answer."""

import json
import subprocess
import sys
from base64 import b64encode
from contextlib import contextmanager
from io import StringIO

import numpy as np
import pytest

from coordinator.control import NotRunning, ask
from edge_agent import enrolment, follow, latest
from edge_agent.inference import Classifier
from export.writer import Wanted, export, write
from protofleet import channel, wire
from protofleet.channel import About, Bank
from protofleet.errors import LinkError, UsageError
from protofleet.logs import Log
from protofleet.mqtt import mosquitto
from protofleet.mqtt.broker import running_broker
from protofleet.prototypes import Prototypes
from tests.bundles import device, digits
from tests.linking import eventually


@pytest.fixture(scope="module")
def made():
    return export(device(), Wanted(by="prototype", freeze=True))


@pytest.fixture
def place(made, tmp_path):
    """A bundle without the class 9 among its prototypes."""
    write(made, tmp_path / "bundle")
    bank = channel.read(made.files["prototypes.cbor"]).bank
    latest.write(latest.state_file(tmp_path / "bundle"), published(channel.without(bank, ["9"])))
    return tmp_path / "bundle"


def published(bank, fleet="f"):
    return channel.write(bank, wire.Envelope("global", fleet, "r", round=9), "float32")


def in_use(bundle):
    classifier = Classifier(bundle)
    latest.settled(classifier, bundle)
    return classifier


def nines(n=5):
    data = digits()
    return data.x[data.y == 9][:n]


def test_five_photos_make_a_class_that_stays(place):
    classifier = in_use(place)
    assert "9" not in classifier.loaded.labels
    new = enrolment.embedded(classifier, "9", nines())
    enrolment.keep(classifier, place, new)
    labels, _ = classifier.classify(nines(30))
    assert np.mean([label == "9" for label in labels]) > 0.5
    assert in_use(place).loaded.labels == classifier.loaded.labels
    assert enrolment.forget(classifier, place, "9")
    assert "9" not in in_use(place).loaded.labels
    assert not enrolment.forget(classifier, place, "9")


def test_two_classes_and_one_forgotten(place):
    classifier = in_use(place)
    for label, images in (("nine", nines()), ("dark", np.zeros((2, 8, 8, 1), np.uint8))):
        enrolment.keep(classifier, place, enrolment.embedded(classifier, label, images))
    assert {"nine", "dark"} <= set(classifier.loaded.labels)
    enrolment.forget(classifier, place, "nine")
    assert "dark" in in_use(place).loaded.labels
    assert classifier.classify(np.zeros((1, 8, 8, 1), np.uint8))[0] == ["dark"]


def test_a_class_that_lies_on_another_is_said_to(place):
    classifier = in_use(place)
    data = digits()
    new = enrolment.embedded(classifier, "again", data.x[data.y == 3])
    assert (new.nearest, new.too_near) == ("3", True)
    with pytest.raises(UsageError, match="already"):
        enrolment.embedded(classifier, "3", nines())


def test_a_summary_holds_means_and_counts(place):
    classifier, data = in_use(place), digits()
    bank = enrolment.summarised(classifier, data.x[:50], data.y[:50], data.classes)
    assert bank.points.counts.sum() == 50
    first = int(bank.about.classes[0])
    mean = classifier.embed(data.x[:50][data.y[:50] == first]).mean(0)
    assert np.allclose(bank.points.vectors[0], mean, atol=1e-5)


def test_a_damaged_memory_falls_back_to_the_bundle(place):
    latest.state_file(place).write_bytes(b"torn")
    latest.enrolled_file(place).write_bytes(b"")
    assert "9" in in_use(place).loaded.labels


FLEET = """
[broker]
packet = {packet}
[serve]
fleet = "f"
min_agents = 1000
[contract]
classes = ["a", "b"]
embedding = 24
[contract.input]
kind = "image"
shape = [8, 8, 1]
"""


@contextmanager
def coordinator(url, folder, bank, packet):
    """A service that publishes this bank."""
    folder.mkdir()
    (folder / "fleet.toml").write_text(FLEET.format(packet=packet))
    command = [sys.executable, "-m", "coordinator", "serve", "--config", str(folder / "fleet.toml"), "--broker", url]
    service = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        frozen = {"prototypes": b64encode(published(bank)).decode(), "bundle": ""}
        eventually(lambda: _answers(folder / "coordinator-data", what="freeze", **frozen))
        yield
    finally:
        service.terminate()
        service.wait(20)


def _answers(folder, **words):
    try:
        return ask(folder, "classes", **words)
    except NotRunning:
        return None


@pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")
@pytest.mark.parametrize("packet", [131_072, 2048])
def test_one_device_enrols_and_another_knows(place, made, tmp_path, packet):
    other = tmp_path / "other"
    write(made, other)
    bank = channel.without(channel.read(made.files["prototypes.cbor"]).bank, ["9"])
    if packet == 2048:  # larger than a packet: it goes in pieces
        points = Prototypes(np.repeat(bank.points.classes, 20), np.repeat(bank.points.vectors, 20, axis=0))
        bank = Bank(bank.about, points)
    with running_broker(tmp_path / "broker", prefer="mosquitto") as broker:
        url, first = str(broker.address), in_use(place)
        with coordinator(url, tmp_path / "c", bank, packet):
            second = Classifier(other)
            with follow.following(second, other, url, "stable", "f", None, wait=True, log=Log(StringIO())):
                assert "9" not in second.loaded.labels
                new = enrolment.embedded(first, "9", nines())
                receipt = enrolment.offer(first, new.bank, url, "f", "device-a", None)
                assert receipt.status == "accepted"
                eventually(lambda: "9" in second.loaded.labels)
                again = enrolment.offer(first, _wrong(new.bank), url, "f", "a", None)
                assert again.status == "refused"
                assert "another extractor" in again.words
    assert "9" in in_use(other).loaded.labels  # remembered, and no broker is needed for it


def _wrong(bank):
    return Bank(About("extractor:other", bank.about.classes), bank.points)


def test_an_answer_that_does_not_come_is_one_line(place):
    classifier = in_use(place)
    new = enrolment.embedded(classifier, "9", nines())
    with pytest.raises(LinkError, match="no answer from the coordinator"):
        enrolment.offer(classifier, new.bank, "mqtt://127.0.0.1:9", None, "a", None, patience=0.3)


def test_prototypes_of_another_lineage_do_not_move_a_follower(place):
    classifier, log = in_use(place), StringIO()
    before = classifier.loaded
    wrong = Bank(About("run:f/other", before.bank.about.classes), before.bank.points)
    latest.arrived(classifier, place, published(wrong), Log(log))
    latest.arrived(classifier, place, b"junk", Log(log))
    assert classifier.loaded is before
    assert log.getvalue().count("cannot be used") == 2
    moved = Bank(before.bank.about, Prototypes(before.bank.points.classes, before.bank.points.vectors + 1))
    latest.arrived(classifier, place, published(moved), Log(log))
    assert classifier.loaded is not before
    assert in_use(place).loaded.state == classifier.loaded.state


def test_the_commands(place, tmp_path):
    from PIL import Image

    for i, image in enumerate(nines()):
        Image.fromarray(image[..., 0]).save(tmp_path / f"{i}.png")

    def run(*words):
        command = [sys.executable, "-m", "edge_agent", *words, "--bundle", str(place)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = run("enroll", "--label", "9", str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "in use on this device" in done.stdout
    seen = json.loads(run("infer", *(str(tmp_path / f"{i}.png") for i in range(5)), "--json").stdout)
    assert sum(row["label"] == "9" for row in seen["answers"]) >= 3
    assert run("forget", "--label", "9").returncode == 0
    again = run("forget", "--label", "9")
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)
