"""A class from a few photos on one device: used at once, beside prototypes and beside the rows of a
fleet's head.
"""

import numpy as np
import pytest

from edge_agent.inference.classifier import Classifier
from edge_agent.updates import cache, enrolment
from export.writer import Wanted, export, write
from protofleet import wire
from protofleet.errors import UsageError
from protofleet.exchange import contributed, learned
from protofleet.exchange.contributed import Claim
from protofleet.exchange.published import About, Bank
from protofleet.statistics.contribution import Grid, contribution, fold
from protofleet.util.files import write_whole
from tests.bundles import device, digits
from tests.edge_agent.classifying import in_use, keep, message_of, nines
from tests.networks import extractor_bundle, pictures


def test_five_photos_make_a_class_that_stays(place):
    classifier = in_use(place)
    assert "9" not in classifier.loaded.labels
    new = keep(classifier, place, "9", nines())
    labels, _ = classifier.classify(nines(30))
    assert np.mean([label == "9" for label in labels]) > 0.5
    assert in_use(place).loaded.labels == classifier.loaded.labels
    message = contributed.read(new.message("f", "a"))
    assert (message.claim.source, message.claim.classes) == ("9", ("9",))
    assert (message.contribution.samples, message.envelope.agent) == (5, "a")
    mean = classifier.embed(nines()).mean(0)
    assert np.allclose(message.contribution.means.vectors[0], mean, atol=2e-3)
    assert enrolment.forget(classifier, place, "9")
    assert "9" not in in_use(place).loaded.labels
    assert not enrolment.forget(classifier, place, "9")


def test_two_classes_and_one_forgotten(place):
    classifier = in_use(place)
    for label, images in (("nine", nines()), ("dark", np.zeros((2, 8, 8, 1), np.uint8))):
        keep(classifier, place, label, images)
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


def test_photos_through_a_quantised_extractor_are_shared_as_the_float_one_would_see_them(
    made, tmp_path
):
    want = Wanted("int8", smallest=True, by="prototype", freeze=True)
    write(export(device(), want), tmp_path / "int8")
    write(made, tmp_path / "full")
    small, full = Classifier(tmp_path / "int8"), Classifier(tmp_path / "full")
    assert small.bundle.manifest.precision == "int8"
    images = nines(100)
    shared = enrolment.embedded(small, "nine", images).contribution.means.vectors
    due = enrolment.embedded(full, "nine", images).contribution.means.vectors
    plain = small.embed(images).mean(0)
    assert np.abs(shared - due).max() < np.abs(plain - due).max()


def test_an_extractor_learns_its_first_classes_from_photos(tmp_path):
    extractor_bundle(tmp_path / "x.pfb")
    for seed, label in ((1, "one"), (2, "two")):
        classifier = in_use(tmp_path / "x.pfb")
        new = keep(classifier, tmp_path / "x.pfb", label, pictures(seed))
        assert (new.nearest, new.share == float("inf")) == (("", True), ("one", False))[seed - 1]
    assert in_use(tmp_path / "x.pfb").look(pictures(2)).best == ["two"] * 6
    for label in ("one", "two"):
        assert enrolment.forget(in_use(tmp_path / "x.pfb"), tmp_path / "x.pfb", label)
    assert in_use(tmp_path / "x.pfb").loaded.labels == []


@pytest.fixture
def fleet(tmp_path):
    """An extractor whose fleet made a head of three colours, and the sums it was made of."""
    bundle = extractor_bundle(tmp_path / "x.pfb")
    classifier, lineage = Classifier(tmp_path / "x.pfb"), bundle.manifest.lineages[0]
    names = ("one", "three", "two")
    images = [pictures(seed, 30) for seed in (1, 3, 2)]
    own = contribution(classifier.embed(np.concatenate(images)), np.repeat([0, 1, 2], 30), Grid())
    state, whole = learned.state(fold(own, Grid()))
    bank = Bank(About(lineage, names, bundle.digest, whole.calibration, "t"), whole.head)
    write_whole(cache.state_file(tmp_path / "x.pfb"), message_of(bank))
    envelope = wire.Envelope("global", "f", "r")
    total = contributed.write_total(Claim(lineage, names, total="t"), state.shared, envelope)
    return tmp_path / "x.pfb", total


def test_beside_a_head_a_new_class_has_a_row_once_the_fleets_sums_are_here(fleet):
    place, total = fleet
    classifier = in_use(place)
    assert classifier.loaded.labels == ["one", "three", "two"]
    keep(classifier, place, "four", pictures(4, 5))
    assert "four" not in classifier.loaded.labels  # rows alone do not say how far is far
    write_whole(cache.total_file(place), total)
    classifier = in_use(place)
    assert classifier.look(pictures(4, 30)).best.count("four") > 25
    others = np.concatenate([pictures(seed, 30) for seed in (1, 2, 3)])
    due = ["one"] * 30 + ["two"] * 30 + ["three"] * 30
    assert np.mean(np.array(classifier.look(others).best) == due) > 0.9
    # once the fleet has it, the fleet's own row counts
    bank = classifier.loaded.bank
    write_whole(cache.state_file(place), message_of(bank))
    assert in_use(place).loaded.bank.points == bank.points


def test_photos_that_are_surely_another_class_are_said_to_be(fleet):
    place, _ = fleet
    new = enrolment.embedded(in_use(place), "again", pictures(1, 6))
    assert (new.nearest, new.too_near) == ("one", True)
