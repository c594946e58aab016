"""What a fleet knows, from the sums alone and once its samples were left out."""

import numpy as np
import pytest

from protofleet.statistics.contribution import Grid, contribution, fold
from protofleet.statistics.evidence import by_evidence
from protofleet.statistics.knowledge import by_counts, by_total, chosen_by, counts_of, stands
from protofleet.statistics.leave_one_out import Samples, choose, losses
from protofleet.values.sums import merge_all

GRID = Grid()
CENTRES = np.random.default_rng(0).normal(size=(5, 64)) * 0.8


def samples(seed, n=60, classes=4):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    return CENTRES[y] + rng.normal(size=(n, 64)), y


DEVICES = [samples(seed) for seed in (1, 2, 3)]


@pytest.fixture(scope="module")
def basis():
    return stands(merge_all([fold(contribution(*each, GRID), GRID) for each in DEVICES]))


def test_nobody_knows_nothing():
    assert stands({}) is None


def test_before_any_count_it_stands_on_the_evidence_and_says_so(basis):
    known = by_total(basis)
    assert known.choice == by_evidence(basis)
    assert not known.calibrated
    assert not known.unknown(np.full((1, 64), 1e6)).any()


def test_devices_choose_together_in_any_order(basis):
    each = [losses(basis, Samples.of(*one)) for one in DEVICES]
    together = chosen_by(basis, each)
    assert together == chosen_by(basis, reversed(each))
    assert together == choose(each[0].plus(each[1]).plus(each[2]))
    assert chosen_by(basis, []) == by_evidence(basis)


def test_with_counts_it_classifies_and_knows_what_it_does_not(basis):
    choice = chosen_by(basis, [losses(basis, Samples.of(*one)) for one in DEVICES])
    counts = [counts_of(basis, choice, Samples.of(*one)) for one in DEVICES]
    known = by_counts(basis, choice, counts[0].plus(counts[1]).plus(counts[2]), 0.05)
    x, y = samples(9, n=400)
    assert (known.labels(x) == y).mean() > 0.9
    assert known.unknown(x).mean() == pytest.approx(0.05, abs=0.05)
    odd = CENTRES[4] + np.random.default_rng(5).normal(size=(100, 64))
    # Odder than the usual, most of them, if not all by so much that they are rejected.
    assert known.scores(odd).max(1).mean() < np.quantile(known.scores(x).max(1), 0.2)
    assert known.calibrated
