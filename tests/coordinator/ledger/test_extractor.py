"""A bundle becomes the fleet's only if every device could use it."""

from hashlib import sha256

import numpy as np
import pytest

from coordinator.ledger.extractor import read_bundle
from protofleet.errors import FleetError
from protofleet.exchange import archive, published
from protofleet.exchange.published import About, Bank
from protofleet.values.prototypes import Prototypes
from tests.coordinator.made import ANTS, packed_bundle


def test_what_is_read_names_the_bytes_that_travel_and_the_prototypes_inside(tmp_path):
    file = packed_bundle(tmp_path / "b.pfb", ANTS)
    extractor, data = read_bundle(file)
    assert data == file.read_bytes()
    assert (extractor.blob, extractor.size) == (sha256(data).hexdigest(), len(data))
    assert published.read(extractor.prototypes).bank == ANTS


@pytest.mark.parametrize(
    ("bank", "changes", "words"),
    [
        (Bank(About("run:f/r/0", ANTS.about.classes), ANTS.points), {}, "export it with --freeze"),
        (Bank(ANTS.about, Prototypes([], np.zeros((0, 3)))), {}, "not one prototype"),
        (ANTS, {"state": "0" * 64}, "not the state"),
        (ANTS, {"schema": "other"}, "schema 'other' is not known"),
        (
            ANTS,
            {"files": {"model.onnx": "0", "prototypes.cbor": "0", "selftest.npz": "0"}},
            "damaged",
        ),
        (ANTS, {"files": {}}, "names no model.onnx"),
    ],
)
def test_a_bundle_that_cannot_be_the_fleets_is_refused(tmp_path, bank, changes, words):
    with pytest.raises(FleetError, match=words):
        read_bundle(packed_bundle(tmp_path / "b.pfb", bank, **changes))


def test_a_file_that_is_no_bundle_is_refused_by_its_name(tmp_path):
    (tmp_path / "junk").write_bytes(b"PK junk")
    for name in ("junk", "nowhere"):
        with pytest.raises(FleetError, match=name):
            read_bundle(tmp_path / name)


def test_one_that_is_too_large_is_not_even_read(tmp_path):
    with (tmp_path / "large").open("wb") as file:
        file.truncate(archive.LARGEST_BUNDLE + 1)  # a hole: it takes no room on the disk
    with pytest.raises(FleetError, match="MiB"):
        read_bundle(tmp_path / "large")


def test_an_extractor_without_any_class_can_be_the_fleets(tmp_path):
    bank = Bank(About("extractor:e", ()), Prototypes([], np.zeros((0, 3))))
    extractor, _ = read_bundle(packed_bundle(tmp_path / "b.pfb", bank))
    assert published.read(extractor.prototypes).bank == bank
