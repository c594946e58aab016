"""A running device takes the bundle that the channel names, whole, or stays with what it has and
says why.
"""

from io import StringIO

from edge_agent.inference.bundle import open_bundle
from edge_agent.inference.classifier import Classifier
from edge_agent.updates import cache
from edge_agent.updates.switch import BundleSwitch
from protofleet import wire
from protofleet.exchange import published
from protofleet.util.files import write_whole
from protofleet.util.logs import Log


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
