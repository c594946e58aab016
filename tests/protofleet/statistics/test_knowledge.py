"""What a fleet knows, from the sums alone and once its samples were left out."""

import numpy as np
import pytest

from protofleet.statistics.closed_form import moments
from protofleet.statistics.contribution import Grid, contribution, fold
from protofleet.statistics.counts import count
from protofleet.statistics.evidence import by_evidence
from protofleet.statistics.held_out import Samples
from protofleet.statistics.knowledge import knowledge
from protofleet.values.sums import merge_all

GRID = Grid()
CENTRES = np.random.default_rng(0).normal(size=(5, 64)) * 0.8


def samples(seed, n=60, classes=4):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    return CENTRES[y] + rng.normal(size=(n, 64)), y


DEVICES = [samples(seed) for seed in (1, 2, 3)]


@pytest.fixture(scope="module")
def whole():
    return moments(merge_all([fold(contribution(*each, GRID), GRID) for each in DEVICES]))


@pytest.fixture(scope="module")
def counts(whole):
    sent = [contribution(*each, GRID) for each in DEVICES]
    one, two, three = (
        count(whole, Samples.of(*each, own)) for each, own in zip(DEVICES, sent, strict=True)
    )
    return one.plus(two).plus(three)


def test_before_any_count_it_stands_on_the_evidence_and_says_so(whole):
    known = knowledge(whole)
    assert known.choice == by_evidence(whole)
    assert not known.calibration.current
    assert known.calibration.samples == 0
    assert not known.unknown(np.full((1, 64), 1e6)).any()


def test_with_counts_it_classifies_and_knows_what_it_does_not(whole, counts):
    known = knowledge(whole, counts, false_alarms=0.05)
    x, y = samples(9, n=400)
    assert (known.labels(x) == y).mean() > 0.9
    assert known.unknown(x).mean() == pytest.approx(0.05, abs=0.05)
    odd = CENTRES[4] + np.random.default_rng(5).normal(size=(100, 64))
    # Odder than the usual, most of them, if not all by so much that they are rejected.
    assert known.scores(odd).max(1).mean() < np.quantile(known.scores(x).max(1), 0.2)
    assert known.calibration.current
    assert known.calibration.samples == 180


def test_counts_of_an_earlier_total_keep_the_choice_and_say_that_they_are_old(whole, counts):
    known = knowledge(whole, counts, current=False)
    assert known.choice == knowledge(whole, counts).choice
    assert not known.calibration.current
