"""Paired differences against scipy's own test, and what is read off a run's document."""

import pytest
from hypothesis import strategies as st

from simulators.cross.paired import (
    accuracy,
    bytes_a_device,
    crossed,
    paired,
    rounds_to,
    within,
)

VALUES = st.floats(0, 1).map(lambda x: round(x, 4))


def document(last, best, rows=(), agents=2):
    each = {
        "final": {"each": last},
        "best": {"each": {k: {"accuracy": v} for k, v in best.items()}},
    }
    return {**each, "partition": {"agents": ["a"] * agents}, "rounds": list(rows)}


def test_only_seeds_that_both_have_are_compared_each_with_its_own():
    ours = {
        0: document({"prototype": 0.9}, {}),
        1: document({"prototype": 0.7}, {}),
        2: document({"prototype": 0.1}, {}),
    }
    theirs = {
        1: document({"head": 0.6}, {}),
        0: document({"head": 0.7}, {}),
        5: document({"head": 0.99}, {}),
    }
    found = paired(ours, theirs, "prototype", "head", "last")
    assert (found.pairs, found.mean) == (2, pytest.approx(0.15))
    assert paired(ours, theirs, "prototype", "prototype", "last") is None
    assert paired(ours, {}, "prototype", "head", "last") is None


def test_the_last_round_and_the_best_are_told_apart():
    run = document({"head": 0.5}, {"head": 0.8})
    assert (accuracy(run, "head", "last"), accuracy(run, "head", "best")) == (0.5, 0.8)
    assert accuracy(run, "prototype", "best") is None


def test_bytes_are_both_ways_and_rounds_are_counted_until_it_is_there():
    rows = [
        {"round": n, "accuracy": {"head": value}, "up_bytes": 100, "down_bytes": 300}
        for n, value in ((1, 0.2), (2, 0.6), (3, 0.5), (4, 0.7))
    ]
    run = document({}, {}, rows)
    assert crossed(run) == [200, 400, 600, 800]
    assert bytes_a_device(run) == 800
    assert [rounds_to(run, "head", x) for x in (0.1, 0.6, 0.65, 0.9)] == [1, 2, 4, None]
    assert rounds_to(run, "prototype", 0.1) is None
    assert [within(run, "head", x) for x in (199, 200, 799, 10_000)] == [None, 0.2, 0.5, 0.7]
