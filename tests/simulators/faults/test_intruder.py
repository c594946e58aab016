"""What is offered is well packed: it is refused for what it is, and not for its hashes."""

import pytest

from edge_agent.inference import sandbox
from protofleet.exchange import archive
from protofleet.exchange.archive import BundleError
from simulators.faults.bundle_mutations import name_of
from simulators.faults.intruder import OFFERS, offered


@pytest.mark.parametrize("what", [what for what in OFFERS if what != "16 GiB of one number"])
def test_every_offer_is_refused_by_the_word_that_is_due(what):
    data = offered(what, "extractor:x")
    with pytest.raises(BundleError, match=OFFERS[what][2]):
        sandbox.examine(data)
    assert len(name_of(data)) == 64


def test_the_hashes_of_an_offer_are_right():
    archive.unpack(offered("an endless loop", "extractor:x"), "it")
