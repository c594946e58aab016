"""Bundles as a device has them on its disk."""

import pytest

from edge_agent.inference.bundle import open_bundle
from edge_agent.updates import cache
from export.writer import Wanted, export, write
from protofleet.exchange import archive, published
from protofleet.util.files import write_whole
from tests.bundles import device
from tests.edge_agent.classifying import message_of


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
