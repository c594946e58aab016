"""Samples come back from few, and not from many."""

import numpy as np
import pytest

from simulators.attacks.defences import HELD_BACK, OPEN, Defences, spoken
from simulators.attacks.restoring import restored, vectors


def test_one_sample_is_found_again_and_five_are_hardly(people, trained):
    one, five = (restored(people, trained, n, 30, OPEN) for n in (1, 5))
    assert one.retrieved > 0.8
    assert one.ssim > one.stranger + 0.15
    assert five.retrieved < 0.5
    assert five.ssim - five.stranger < 0.1


def test_a_minimum_count_leaves_nothing_to_restore(people, trained):
    assert restored(people, trained, 2, 10, HELD_BACK) is None
    assert restored(people, trained, 5, 10, HELD_BACK).vectors == 10


def test_two_samples_come_apart_by_their_covariance(people, trained):
    rows = people.private.of_class(7)[:2]
    pair = people.private.at(rows)
    both = vectors(spoken(pair.features, pair.labels, people.grid, OPEN))
    apart = np.abs(both[:, None] - pair.features[None]).max(2)
    assert sorted(apart.argmin(1)) == [0, 1]
    assert apart.min(1) == pytest.approx(np.zeros(2), abs=0.02)
    off = spoken(pair.features, pair.labels, people.grid, Defences(covariance="off"))
    assert len(vectors(off)) == 1
