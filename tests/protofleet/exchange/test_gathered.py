"""A group's total as it is kept, and what of a contribution goes into it."""

from dataclasses import replace

import pytest

from protofleet.contract import Contract, Input
from protofleet.errors import FusionError, WireError
from protofleet.exchange import gathered
from protofleet.exchange.gathered import GroupClaim
from protofleet.masking.rooms import MaskTerms
from protofleet.statistics.contribution import MEANS
from protofleet.values.sums import digest, merge
from tests.contributing import LINEAGE, WIDTH, message, read

CLASSES = ("plum", "apple", "pear")
CONTRACT = Contract(
    "orchard", "r1", 0, CLASSES, Input("vector", (4,)), embedding=4, masks=MaskTerms(1)
)
PURPOSE = gathered.contributing(LINEAGE)


def total():
    some = [("a", ("apple", "plum")), ("b", ("plum",))]
    first, second = (gathered.sums_of(read(*one), CLASSES) for one in some)
    return merge(first, second)


def test_a_total_is_kept_to_the_bit():
    claim = GroupClaim(PURPOSE, "ab" * 16, ("a", "b"), CLASSES)
    group = gathered.read(gathered.write(claim, total(), "orchard", "r1"))
    assert group.claim == claim
    assert digest(group.partial) == digest(total())
    assert group.samples == {"plum": 12, "apple": 6}


def test_rows_are_of_the_classes_that_were_agreed_on():
    means = gathered.sums_of(read("a", ("apple", "plum")), CLASSES)[MEANS]
    assert sorted(means.keys.tolist()) == [0, 1]
    with pytest.raises(FusionError, match="did not agree on: quince"):
        gathered.sums_of(read("a", ("apple", "quince")), CLASSES)


def test_what_is_sent_fits_the_layout_and_comes_back():
    layout = gathered.layout(PURPOSE, CONTRACT, WIDTH, 4)
    own = gathered.sums_of(read("a", ("apple", "plum")), CLASSES)
    assert digest(layout.unpack(layout.pack(own))) == digest(own)
    counts = gathered.layout(gathered.counting("ab" * 32), CONTRACT, 0, 4)
    assert counts.digest() != layout.digest()
    with pytest.raises(FusionError, match="nothing of masked sums"):
        gathered.layout(PURPOSE, replace(CONTRACT, masks=None), WIDTH, 4)


def test_what_is_no_total_is_refused():
    with pytest.raises(WireError, match="a group's total is due"):
        gathered.read(message("a", ("apple",)))
    claim = GroupClaim(PURPOSE, "ab" * 16, ("a", "b"), CLASSES)
    whole = gathered.write(claim, total(), "orchard", "r1")
    with pytest.raises(WireError):
        gathered.read(whole[:-9])
