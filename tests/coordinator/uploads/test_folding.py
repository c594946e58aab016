"""Sums that look alike are one group, wherever they were folded; what nobody checks is refused."""

import numpy as np
import pytest

from coordinator.uploads.folding import Folding, Group, add_group, refusal_of
from coordinator.uploads.validation import Expected, Refusal
from protofleet import registry
from protofleet.errors import FusionError
from protofleet.exchange.state import Upload
from protofleet.values.prototypes import Prototypes
from protofleet.values.sums import Bag, digest
from tests.coordinator.made import CONTRACT, parts_of


@pytest.fixture
def folding():
    recipe = registry.load("fedproto")
    return Folding(Expected("orchard", "r1", recipe, CONTRACT), recipe.hyper())


def test_groups_that_were_folded_apart_are_those_that_were_folded_together(folding):
    uploads = [Upload(agent, 1, "", parts_of(agent, 1)) for agent in "abcd"]
    together, one, two = [], [], []
    for number, upload in enumerate(uploads):
        assert folding.add(together, upload, 1) is None
        assert folding.add((one, two)[number % 2], upload, 1) is None
    for group in two:
        add_group(one, group)
    assert digest(one[0].total) == digest(together[0].total)
    assert sorted(one[0].uploads) == together[0].uploads


def test_what_looks_otherwise_is_a_group_of_its_own(folding):
    groups = []
    folding.add(groups, Upload("a", 1, "", parts_of("a", 1)), 1)
    folding.add(groups, Upload("b", 1, "", parts_of("b", 1, dim=5)), 1)
    assert [group.uploads for group in groups] == [[(1, "a")], [(1, "b")]]


def test_a_part_that_nobody_uses_is_refused_and_adds_nothing(folding):
    groups = []
    parts = {**parts_of("a", 1), "more": Prototypes([0], np.ones((1, 4)))}
    refusal = folding.add(groups, Upload("a", 1, "", parts), 1)
    assert isinstance(refusal, Refusal)
    assert (refusal.code, groups) == ("part", [])


def test_what_cannot_be_joined_leaves_both_as_they_were():
    bag = Group({}, {"all": Bag.of("a", 1, {})}, [(1, "a")])
    groups = [bag]
    with pytest.raises(FusionError):
        add_group(groups, Group({}, {"all": Bag.of("a", 1, {})}, [(1, "a")]))
    assert groups == [bag]
    assert bag.uploads == [(1, "a")]


def test_an_error_is_one_line():
    assert refusal_of(ValueError("two\nlines")).words == "two lines"
