"""Leaving one out in closed form is leaving one out."""

import numpy as np
import pytest

from protofleet.statistics.closed_form import SHRINKAGE, UNSURE, Moments, basis
from protofleet.statistics.closed_form import moments as moments_of
from protofleet.statistics.contribution import Grid, contribution, fold
from protofleet.statistics.leave_one_out import (
    STEP,
    TEMPERATURES,
    Samples,
    choose,
    left_out,
    log_loss,
    losses,
)
from protofleet.values.sums import merge_all
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


def test_one_that_is_alone_in_its_class_is_not_counted():
    x, y = samples(4, n=12)
    y = np.append(y, 3)
    x = np.vstack([x, x[:1]])
    found = losses(basis(exact(x, y)), Samples.of(x, y))
    assert found.samples == 12


def test_losses_add_up_over_devices_in_any_order_and_are_those_of_all_samples():
    devices = [samples(seed, n=30) for seed in (1, 2, 3)]
    grid = Grid()
    total = merge_all([fold(contribution(*each, grid), grid) for each in devices])
    white = basis(moments_of(total))
    each = [losses(white, Samples.of(*one)) for one in devices]
    forth, back = each[0].plus(each[1]).plus(each[2]), each[2].plus(each[0]).plus(each[1])
    assert np.array_equal(forth.losses, back.losses)
    assert forth.samples == 90
    row, column = 4, 6
    by_hand = 0.0
    for one in devices:
        own, at = Samples.of(*one), white.whitened(SHRINKAGE[row])
        usual = float(left_out(at, own, 0.0).distances.mean())
        by_hand += float(log_loss(left_out(at, own, usual), TEMPERATURES[column]).sum())
    assert forth.losses[row, column] * STEP == pytest.approx(by_hand, abs=90 * STEP)


def test_the_least_loss_is_chosen_and_nothing_where_nobody_could_be_left_out():
    found = losses(basis(exact(*samples(5, n=80))), Samples.of(*samples(5, n=80)))
    choice = choose(found)
    row, column = SHRINKAGE.index(choice.shrinkage), TEMPERATURES.index(choice.temperature)
    assert found.losses[row, column] == found.losses.min()
    lonely = np.arange(3.0)[:, None] * np.ones(4), np.arange(3)
    assert choose(losses(basis(exact(*lonely)), Samples.of(*lonely))) is None


def test_only_what_a_contribution_told_is_taken_out_again():
    """With the directions of a factor, leaving out changes nothing across them."""
    x, y = samples(6, n=60, dim=8)
    own = contribution(x, y, Grid(), rank=3)
    told = Samples.of(x, y, own)
    assert told.directions.shape == (3, 8)
    assert told.directions @ told.directions.T == pytest.approx(np.eye(3), abs=1e-9)
    assert Samples.of(x, y, contribution(x, y, Grid(), rank=8)).directions is None
