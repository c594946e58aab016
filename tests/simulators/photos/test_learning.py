"""A fleet that learned by sums classifies as one that holds all photographs."""

import numpy as np
import pytest

from protofleet.statistics.contribution import Grid
from protofleet.values.sums import digest
from simulators.photos.learning import enrolled, learned, moved, rows_of
from simulators.photos.photographs import ALL, HoldOut, share, split, without
from tests.simulators.photos.made_up import photographs

SOME = photographs()
GRID = Grid()


def test_the_total_is_the_same_whatever_the_order_of_devices():
    rows = rows_of(SOME, split(SOME, 0, ALL))
    turned = dict(reversed(rows.items()))
    one, other = (learned(SOME, order, GRID, 64) for order in (rows, turned))
    assert digest(one.total) == digest(other.total)
    assert one.knowledge.choice == other.knowledge.choice
    assert np.array_equal(one.knowledge.head.weight, other.knowledge.head.weight)


def test_it_knows_what_was_held_back():
    parts = split(SOME, 0, ALL)
    fleet = learned(SOME, rows_of(SOME, parts), GRID, 64)
    labels = fleet.knowledge.labels(SOME.features[parts.test])
    assert share(labels == SOME.labels[parts.test]) > 0.95
    assert fleet.knowledge.calibration.current


def test_five_photographs_are_enough_for_a_new_class():
    parts = split(SOME, 0, ALL)
    rows = {d: without(SOME, at, 2) for d, at in rows_of(SOME, parts).items()}
    before = learned(SOME, rows, GRID, 64)
    new = parts.train[SOME.labels[parts.train] == 2][:5]
    after = enrolled(before, SOME, rows, new, GRID, 64)
    test = parts.test[SOME.labels[parts.test] == 2]
    assert share(after.labels(SOME.features[test]) == 2) > 0.9
    assert not after.calibration.current


def test_a_device_without_labels_is_none():
    parts = split(SOME, 0, ALL)
    lone = HoldOut(parts.train[SOME.domains[parts.train] == 1], parts.test)
    assert list(rows_of(SOME, lone)) == [1]


def test_features_are_moved_by_the_difference_of_means():
    rng = np.random.default_rng(0)
    x, own, fleet = (rng.normal(size=(5, 3)).astype(np.float32) + i for i in range(3))
    assert moved(x, own, fleet).mean(0) == pytest.approx(x.mean(0) - own.mean(0) + fleet.mean(0))
