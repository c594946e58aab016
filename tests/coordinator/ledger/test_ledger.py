"""Contributions and their total: what is there is a function of who contributes what, and of
nothing that happened in between.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.ledger.ledger import Ledger
from protofleet.errors import FusionError
from protofleet.exchange import learned
from protofleet.statistics import contribution, voices
from protofleet.statistics.contribution import MEANS, SCATTER
from protofleet.values import sums
from tests.contributing import GRID, LINEAGE, read

AGREED = ("plum", "apple")
NAMES = ("apple", "pear", "plum", "quince")
AGENTS = ("a", "b", "c")
# A device says something of some classes, or nothing any more.
said = st.tuples(
    st.sampled_from(AGENTS),
    st.sampled_from(("", "pear")),
    st.one_of(st.none(), st.tuples(st.sets(st.sampled_from(NAMES), min_size=1), st.integers(0, 3))),
)


def of(agent, source, words):
    names, seed = words
    return read(agent, [source] if source else sorted(names), seed, source=source)


def after(happenings, buckets=1):
    """The ledger after all of these, and what is in it in the end."""
    ledger, newest = Ledger(LINEAGE, buckets=buckets), {}
    for agent, source, words in happenings:
        before = newest.pop((agent, source), None)
        if words is not None:
            newest[agent, source] = of(agent, source, words)
            ledger = ledger.plus(agent, newest[agent, source], before)
        elif before is not None:
            ledger = ledger.without(agent, before)
    return ledger, newest


buckets = st.sampled_from((1, 64))


def state(ledger):
    total = ledger.canonical(AGREED)[1]
    heard = voices.heard(total, ledger.buckets, voices.doubted(total, ledger.buckets))
    return learned.state(total, heard=heard)[0].sha256


@given(st.lists(said, max_size=8), st.randoms(), buckets)
def test_whatever_happened_it_is_the_ledger_of_what_is_there_in_any_order(happenings, rng, number):
    ledger, newest = after(happenings, number)
    places = list(newest)
    rng.shuffle(places)
    fresh = Ledger(LINEAGE, buckets=number)
    for agent, source in places:
        fresh = fresh.plus(agent, newest[agent, source])
    assert ledger.entries == fresh.entries
    assert ledger.canonical(AGREED)[0] == fresh.canonical(AGREED)[0]
    assert state(ledger) == state(fresh)
    assert sums.digest(ledger.canonical()[1]) == sums.digest(fresh.canonical()[1])


@given(st.lists(said, max_size=6), said, buckets)
def test_without_a_device_it_is_the_ledger_that_never_had_it(happenings, gone, number):
    others = [words for words in happenings if words[0] != gone[0]]
    ledger, newest = after([*happenings, gone], number)
    for agent, source in newest:
        if agent == gone[0]:
            ledger = ledger.without(agent, newest[agent, source])
    never, _ = after(others, number)
    assert state(ledger) == state(never)
    assert ledger.canonical(AGREED)[0] == never.canonical(AGREED)[0]
    assert (ledger.agents, ledger.classes) == (never.agents, never.classes)


def test_rows_stand_under_the_names_that_they_came_with():
    """The classes of the contract first, in its order, then the others by name."""
    ledger, newest = after([("a", "", (NAMES, 0)), ("b", "", ({"quince", "apple"}, 1))])
    names, total = ledger.canonical(AGREED)
    assert names == ("plum", "apple", "pear", "quince")
    for name, mean, weight in zip(names, total[MEANS].mean(), total[MEANS].weights, strict=True):
        rows = [
            (c.contribution.means.only([c.claim.classes.index(name)]))
            for c in newest.values()
            if name in c.claim.classes
        ]
        counts = np.array([int(row.counts[0]) for row in rows])
        due = sum(row.vectors[0].astype(float) * n for row, n in zip(rows, counts, strict=True))
        assert weight == counts.sum() == ledger.classes[name]
        np.testing.assert_array_equal(mean, due / counts.sum())
    folded = sums.merge_all(contribution.fold(c.contribution, GRID) for c in newest.values())
    assert total[SCATTER].digest() == folded[SCATTER].digest()


def test_a_class_of_the_contract_that_nobody_has_keeps_its_place_and_has_no_row():
    ledger, _ = after([("a", "", ({"pear"}, 0))])
    names, total = ledger.canonical(AGREED)
    assert names == ("plum", "apple", "pear")
    assert total[MEANS].keys.tolist() == [2]
    assert Ledger(LINEAGE).canonical(AGREED) == (AGREED, {})


def test_only_what_was_added_can_be_taken_away_and_only_once():
    first, other = read("a", NAMES, 0), read("a", NAMES, 1)
    ledger = Ledger(LINEAGE).plus("a", first)
    for wrong in (lambda: ledger.without("a", other), lambda: ledger.without("b", first)):
        with pytest.raises(FusionError, match="never added"):
            wrong()
    with pytest.raises(FusionError, match="there already"):
        ledger.plus("a", other)
    assert ledger.without("a", first).total == {}


def test_a_device_has_one_contribution_a_source():
    ledger, _ = after([("a", "", ({"apple"}, 0)), ("a", "pear", ({"pear"}, 0))])
    assert {source: entry.samples for source, entry in ledger.of("a").items()} == {"": 6, "pear": 6}
    assert ledger.brought_by("pear") == [("a", "pear")]
    assert (ledger.agents, ledger.samples) == (["a"], 12)
