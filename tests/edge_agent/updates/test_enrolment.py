"""A class from a few photos on one device, and on the others through a real broker and a real
coordinator's answer.
"""

from io import StringIO

import numpy as np
import pytest

from edge_agent.inference.classifier import Classifier
from edge_agent.updates import cache, enrolment, listener
from export.writer import Wanted, export, write
from protofleet import wire
from protofleet.errors import LinkError, UsageError
from protofleet.exchange import published
from protofleet.exchange.published import About, Bank
from protofleet.mqtt.address import Address
from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.broker.run import running_broker
from protofleet.util.files import write_whole
from protofleet.util.logs import Log
from protofleet.values.prototypes import Prototypes
from tests.bundles import device, digits
from tests.coordinator.made import packed_bundle
from tests.linking import eventually
from tests.networks import extractor_bundle, pictures
from tests.serving import coordinator, frozen


@pytest.fixture(scope="module")
def made():
    return export(device(), Wanted(by="prototype", freeze=True))


@pytest.fixture
def place(made, tmp_path):
    """A bundle without the class 9 among its prototypes."""
    write(made, tmp_path / "bundle")
    bank = published.read(made.files["prototypes.cbor"]).bank
    write_whole(cache.state_file(tmp_path / "bundle"), message_of(published.without(bank, ["9"])))
    return tmp_path / "bundle"


def message_of(bank, fleet="f"):
    return published.write(bank, wire.Envelope("global", fleet, "r", round=9), "float32")


def in_use(bundle):
    classifier = Classifier(bundle)
    cache.settled(classifier, bundle)
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
    bank, left_out = enrolment.summarised(classifier, data.x[:50], data.y[:50], data.classes)
    assert (left_out, bank.points.counts.sum()) == (["9"], (data.y[:50] != 9).sum())
    first = int(bank.about.classes[0])
    mean = classifier.embed(data.x[:50][data.y[:50] == first]).mean(0)
    assert np.allclose(bank.points.vectors[0], mean, atol=1e-5)


def test_means_through_a_quantised_extractor_are_shared_as_the_float_one_would_see_them(
    made, tmp_path
):
    write(
        export(device(), Wanted("int8", smallest=True, by="prototype", freeze=True)),
        tmp_path / "int8",
    )
    small, full, data = (
        Classifier(tmp_path / "int8"),
        in_use(write_to(made, tmp_path / "full")),
        digits(),
    )
    assert small.bundle.manifest.precision == "int8"
    rows = slice(0, 400)
    means, _ = enrolment.summarised(small, data.x[rows], data.y[rows], data.classes)
    due, _ = enrolment.summarised(full, data.x[rows], data.y[rows], data.classes)
    small.use(Bank(means.about, means.points), "theirs")
    seen = small.embed(data.x[rows])
    for c in range(10):
        own = small.loaded.ready.inputs["proto_w"][:, c] / 2
        assert np.allclose(own, seen[data.y[rows] == c].mean(0), atol=1e-4)
    apart = np.abs(means.points.vectors - due.points.vectors).max()
    assert apart < np.abs(small.loaded.ready.inputs["proto_w"].T / 2 - due.points.vectors).max()


def write_to(made, path):
    write(made, path)
    return path


@pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")
@pytest.mark.parametrize("packet", [131_072, 2048])
def test_one_device_enrols_and_another_knows(place, made, tmp_path, packet):
    other = tmp_path / "other"
    write(made, other)
    bank = published.without(published.read(made.files["prototypes.cbor"]).bank, ["9"])
    if packet == 2048:  # larger than a packet: it goes in pieces
        points = Prototypes(
            np.repeat(bank.points.classes, 20), np.repeat(bank.points.vectors, 20, axis=0)
        )
        bank = Bank(bank.about, points)
    with running_broker(tmp_path / "broker", prefer="mosquitto") as broker:
        url, first = str(broker.address), in_use(place)
        with coordinator(url, tmp_path / "c", packet):
            frozen(tmp_path / "c", packed_bundle(tmp_path / "few.pfb", bank))
            second = Classifier(other)
            with listener.following(
                second,
                other,
                listener.Channel(Address.parse(url), "stable", "f"),
                wait=True,
                log=Log(StringIO()),
            ):
                assert "9" not in second.loaded.labels
                new = enrolment.embedded(first, "9", nines())
                receipt = enrolment.offer(first, new.bank, Address.parse(url), "f", "device-a")
                assert receipt.status == "accepted"
                eventually(lambda: "9" in second.loaded.labels)
                again = enrolment.offer(first, _wrong(new.bank), Address.parse(url), "f", "a")
                assert again.status == "refused"
                assert "another extractor" in again.words
    assert "9" in in_use(other).loaded.labels  # remembered, and no broker is needed for it


def _wrong(bank):
    return Bank(About("extractor:other", bank.about.classes), bank.points)


def test_an_answer_that_does_not_come_is_one_line(place):
    classifier = in_use(place)
    new = enrolment.embedded(classifier, "9", nines())
    with pytest.raises(LinkError, match="no answer from the coordinator"):
        enrolment.offer(
            classifier, new.bank, Address.parse("mqtt://127.0.0.1:9"), None, "a", patience=0.3
        )


def test_an_extractor_learns_its_first_classes_from_photos(tmp_path):
    extractor_bundle(tmp_path / "x.pfb")
    for seed, label in ((1, "one"), (2, "two")):
        classifier = in_use(tmp_path / "x.pfb")
        new = enrolment.embedded(classifier, label, pictures(seed))
        enrolment.keep(classifier, tmp_path / "x.pfb", new)
        assert (new.nearest, new.share == float("inf")) == (("", True), ("one", False))[seed - 1]
    assert in_use(tmp_path / "x.pfb").look(pictures(2)).best == ["two"] * 6
    for label in ("one", "two"):
        assert enrolment.forget(in_use(tmp_path / "x.pfb"), tmp_path / "x.pfb", label)
    assert in_use(tmp_path / "x.pfb").loaded.labels == []
