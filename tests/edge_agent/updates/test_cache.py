"""What lies beside a bundle: newest first, damaged is as good as none, each extractor its own."""

import numpy as np
import pytest

from edge_agent.inference.bundle import open_bundle
from edge_agent.inference.classifier import Classifier
from edge_agent.updates import cache, enrolment
from export.writer import Wanted, export, write
from protofleet import wire
from protofleet.exchange import archive, published
from protofleet.util.files import write_whole
from tests.bundles import device, digits


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


def test_a_damaged_memory_falls_back_to_the_bundle(place):
    cache.state_file(place).write_bytes(b"torn")
    cache.enrolled_folder(place).mkdir()
    cache.enrolled_file(place, "", "9").write_bytes(b"")
    assert "9" in in_use(place).loaded.labels


def test_classes_of_a_second_extractor_do_not_displace_those_of_the_first(place, made, tmp_path):
    classifier = in_use(place)
    keep(classifier, place, "9", nines())
    first = classifier.loaded.bank.about.lineage
    other = write_other(tmp_path)
    write_whole(cache.fleet_file(place), other.read_bytes())
    write_whole(cache.state_file(place), open_bundle(other).files["prototypes.cbor"])
    cache.settled(classifier, place)
    keep(classifier, place, "dark", np.zeros((2, 8, 8, 1), np.uint8))
    second = classifier.loaded.bank.about.lineage
    assert [own.label for own in cache.enrolled(place, first)] == ["9"]
    assert [own.label for own in cache.enrolled(place, second)] == ["dark"]
    assert {"dark"} == set(in_use(place).loaded.labels) - {str(n) for n in range(10)}


def keep(classifier, place, label, images):
    new = enrolment.embedded(classifier, label, images)
    enrolment.keep(classifier, place, new.message("f", "a"))


def write_other(folder):
    write(export(device(embedding=12), Wanted(by="prototype", freeze=True)), folder / "second.pfb")
    return folder / "second.pfb"


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """A device's own bundle, and one whose extractor is to be the fleet's, of another size."""
    folder = tmp_path_factory.mktemp("made")
    write(export(device(), Wanted(by="prototype")), folder / "own")
    write(export(device(embedding=12), Wanted(by="prototype", freeze=True)), folder / "fleets.pfb")
    return folder / "own", folder / "fleets.pfb"


@pytest.fixture
def own(bundles, tmp_path):
    made = open_bundle(bundles[0])
    (tmp_path / "own.pfb").write_bytes(archive.packed_bytes(bundles[0]))
    assert open_bundle(tmp_path / "own.pfb").digest == made.digest
    return tmp_path / "own.pfb"


def test_a_damaged_bundle_on_disk_leaves_the_device_with_its_own(own, bundles):
    write_whole(cache.state_file(own), open_bundle(bundles[1]).files["prototypes.cbor"])
    write_whole(cache.fleet_file(own), bundles[1].read_bytes()[:-200])
    classifier = Classifier(own)
    cache.settled(classifier, own)
    assert classifier.bundle.digest == open_bundle(own).digest
