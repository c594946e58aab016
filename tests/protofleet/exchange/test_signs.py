"""What is chance and what is not, between two answers to the same samples."""

import pytest
from scipy.stats import binomtest

from protofleet.exchange.signs import MANY, chance, is_worse


@pytest.mark.parametrize(("better", "worse"), [(0, 0), (3, 3), (2, 12), (480, 520)])
def test_it_is_the_sign_test(better, worse):
    n = better + worse
    exact = binomtest(worse, n, alternative="greater").pvalue if n else 1.0
    assert chance(better, worse) == pytest.approx(exact, rel=1e-9)


def test_beyond_many_it_is_near_enough():
    exact = binomtest(MANY // 2 + 60, MANY + 2, alternative="greater").pvalue
    assert chance(MANY // 2 - 58, MANY // 2 + 60) == pytest.approx(exact, rel=0.02)


def test_ten_points_of_a_hundred_are_seen_and_chance_is_not():
    assert is_worse(2, 12, 100, 0.03)
    assert not is_worse(2, 7, 100, 0.03)  # five points, which may be chance
    assert not is_worse(100, 200, 100_000, 0.03)  # no chance, and next to nothing
