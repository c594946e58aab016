"""What more samples would bring: much where they are few, little where they are many."""

import numpy as np

from protofleet.statistics.closed_form import moments
from protofleet.statistics.contribution import Grid, contribution, fold
from protofleet.statistics.forecast import forecast
from protofleet.statistics.held_out import Samples, folds
from protofleet.values.sums import merge

GRID = Grid()


def drawn(rng, centres, number, spread=1.0):
    labels = np.repeat(np.arange(len(centres)), number)
    return centres[labels] + rng.normal(0, spread, (len(labels), centres.shape[1])), labels


def fleet(rng, centres, own, others):
    x, y = drawn(rng, centres, own)
    one = contribution(x, y, GRID)
    total = merge(fold(one, GRID), fold(contribution(*drawn(rng, centres, others), GRID), GRID))
    return moments(total), Samples.of(x, y, one)


def test_counts_are_of_the_own_samples_and_shares_are_of_what_stays():
    rng = np.random.default_rng(1)
    of, own = fleet(rng, rng.normal(0, 3, (4, 12)), 20, 30)
    rows = forecast(of, own, 0.1)
    assert [row.label for row in rows] == [0, 1, 2, 3]
    assert all((row.tested, row.samples) == (20, 50) for row in rows)
    assert all(0 <= row.gain <= 1 - row.accuracy <= 1 for row in rows)
    for share, rest in ((1.0, 46), (0.5, 38), (0.25, 34)):
        counts = [part.moments.counts for part in folds(of, own, share)]
        assert np.mean(counts) == rest


def test_where_samples_are_few_more_help_and_where_they_are_many_hardly():
    rng = np.random.default_rng(2)
    centres = rng.normal(0, 0.55, (6, 40))
    of, own = fleet(rng, centres, 6, 4)
    few = forecast(of, own, 0.3)
    of, own = fleet(rng, centres, 60, 400)
    many = forecast(of, own, 0.3)
    gains = [float(np.mean([row.gain for row in rows])) for rows in (few, many)]
    assert gains[0] > 5 * gains[1]
    assert gains[0] > 0.02


def test_without_a_sample_that_can_be_left_out_there_is_nothing_to_say():
    rng = np.random.default_rng(3)
    x, y = drawn(rng, np.eye(3) * 5, 1)
    one = contribution(x, y, GRID)
    assert forecast(moments(fold(one, GRID)), Samples.of(x, y, one), 0.1) == []
