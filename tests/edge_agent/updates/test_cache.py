"""What lies beside a bundle: newest first, damaged is as good as none, each extractor its own."""

import numpy as np

from edge_agent.inference.bundle import open_bundle
from edge_agent.inference.classifier import Classifier
from edge_agent.updates import cache
from export.writer import Wanted, export, write
from protofleet.util.files import write_whole
from tests.bundles import device
from tests.edge_agent.classifying import in_use, keep, nines


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


def write_other(folder):
    write(export(device(embedding=12), Wanted(by="prototype", freeze=True)), folder / "second.pfb")
    return folder / "second.pfb"


def test_a_damaged_bundle_on_disk_leaves_the_device_with_its_own(own, bundles):
    write_whole(cache.state_file(own), open_bundle(bundles[1]).files["prototypes.cbor"])
    write_whole(cache.fleet_file(own), bundles[1].read_bytes()[:-200])
    classifier = Classifier(own)
    cache.settled(classifier, own)
    assert classifier.bundle.digest == open_bundle(own).digest
