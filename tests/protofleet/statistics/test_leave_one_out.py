"""Leaving one out in closed form is leaving one out."""

import numpy as np
import pytest

from protofleet.statistics.closed_form import SHRINKAGE, UNSURE, Moments, basis
from protofleet.statistics.contribution import Grid, contribution
from protofleet.statistics.leave_one_out import (
    TEMPERATURES,
    Samples,
    choose,
    left_out,
)
from tests.protofleet.statistics.test_contribution import samples


def exact(x, y):
    """Moments without any rounding, of samples in one place."""
    classes, counts = np.unique(y, return_counts=True)
    means = np.stack([x[y == c].mean(0) for c in classes])
    off = x - means[np.searchsorted(classes, y)]
    return Moments(classes, counts.astype(float), means, off.T @ off / len(x))


def brute(x, y, i, shrinkage, distance):
    """Scores of sample i by everything but i: centre, N and the size of the shrinkage as before."""
    whole, rest = exact(x, y), np.arange(len(x)) != i
    means, counts = whole.means.copy(), whole.counts.copy()
    means[y[i]], counts[y[i]] = x[rest & (y == y[i])].mean(0), counts[y[i]] - 1
    off = x[rest] - means[y[rest]]
    within = off.T @ off / len(x)
    floor = shrinkage * np.trace(whole.within) / x.shape[1]
    inverse = np.linalg.inv(within + floor * np.eye(x.shape[1]))
    belief, centre = counts / (counts + 8.0), whole.means.mean(0)
    a, z = belief[:, None] * (means - centre), x[i] - centre
    credit = UNSURE * distance * belief**2 / counts
    scores = a @ inverse @ z - 0.5 * np.einsum("kd,de,ke->k", a, inverse, a) + 0.5 * credit
    return scores, float((z - a[y[i]]) @ inverse @ (z - a[y[i]]))


@pytest.mark.parametrize("shrinkage", [0.01, 1.0, 10.0])
def test_it_is_what_comes_of_leaving_each_out(shrinkage):
    x, y = samples(3, n=25, dim=6)
    out = left_out(basis(exact(x, y)).whitened(shrinkage), Samples.of(x, y), 3.0)
    for i in range(len(x)):
        scores, distance = brute(x, y, i, shrinkage, 3.0)
        assert out.scores[i] == pytest.approx(scores, rel=1e-6, abs=1e-6)
        assert out.distances[i] == pytest.approx(distance, rel=1e-6)


def test_the_least_loss_is_chosen_and_nothing_where_nobody_could_be_left_out():
    losses = np.full((len(SHRINKAGE), len(TEMPERATURES)), 9)
    losses[3, 5] = 1
    distances = np.arange(len(SHRINKAGE)) * 2**16
    choice = choose(2, distances, losses)
    assert (choice.shrinkage, choice.temperature) == (SHRINKAGE[3], TEMPERATURES[5])
    assert choice.distance == 1.5
    assert choose(0, distances, losses) is None


def test_many_samples_are_thinned_evenly():
    x = np.arange(100.0)[:, None]
    few = Samples.of(x, np.arange(100)).at_most(10)
    assert few.labels.tolist() == [0, 11, 22, 33, 44, 55, 66, 77, 88, 99]
    assert Samples.of(x, np.arange(100)).at_most(100).labels.tolist() == list(range(100))


def test_only_what_a_contribution_told_is_taken_out_again():
    """With the directions of a factor, leaving out changes nothing across them."""
    x, y = samples(6, n=60, dim=8)
    own = contribution(x, y, Grid(), rank=3)
    told = Samples.of(x, y, own)
    assert told.directions.shape == (3, 8)
    assert told.directions @ told.directions.T == pytest.approx(np.eye(3), abs=1e-9)
    assert Samples.of(x, y, contribution(x, y, Grid(), rank=8)).directions is None
