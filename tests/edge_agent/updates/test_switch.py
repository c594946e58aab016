"""A running device takes the bundle that the channel names, whole, or stays with what it has and
says why.
"""

from io import StringIO

import pytest

from edge_agent.inference.bundle import open_bundle
from edge_agent.inference.classifier import Classifier
from edge_agent.updates import cache
from edge_agent.updates.switch import BundleSwitch
from export.writer import Wanted, export, write
from protofleet import wire
from protofleet.exchange import archive, published
from protofleet.util.files import write_whole
from protofleet.util.logs import Log
from tests.bundles import device


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


def test_back_to_its_own_lineage_it_takes_its_own_bundle_from_the_disk(own, bundles):
    classifier = Classifier(own)
    home = classifier.loaded.bank
    own_state = published.write(home, wire.Envelope("global", "f", "r", round=5))
    log = StringIO()
    follower = BundleSwitch(classifier, own, None, Log(log))
    write_whole(cache.fleet_file(own), bundles[1].read_bytes())
    follower.state(open_bundle(bundles[1]).files["prototypes.cbor"])
    assert classifier.bundle.manifest.embedding == 12
    follower.state(own_state)
    assert classifier.bundle.manifest.embedding == 24
    assert "cannot" not in log.getvalue()
