"""The classifier of a total, against its formulas written out sample by sample."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from protofleet.statistics.closed_form import PRIOR, UNSURE, Moments, basis, head, moments
from protofleet.statistics.contribution import Grid, contribution, fold
from protofleet.values.sums import merge_all
from tests.protofleet.statistics.test_contribution import samples

GRID = Grid()


def total_of(*seeds, **how):
    return merge_all([fold(contribution(*samples(seed, **how), GRID), GRID) for seed in seeds])


def test_moments_are_those_of_the_samples_in_one_place():
    x, y = (np.concatenate(each) for each in zip(samples(1), samples(2), strict=True))
    found = moments(total_of(1, 2))
    means = np.stack([x[y == c].mean(0) for c in found.classes])
    off = x - means[y]
    assert found.means == pytest.approx(means, abs=2e-3)
    assert found.counts.tolist() == np.bincount(y).tolist()
    assert found.within == pytest.approx(off.T @ off / len(x), abs=0.02)


def test_nothing_comes_of_nothing():
    assert moments({}) is None


@given(st.integers(0, 30), st.sampled_from([0.01, 1.0, 10.0]))
def test_the_head_orders_classes_as_the_distances_do(seed, shrinkage):
    found = moments(total_of(seed))
    x, _ = samples(seed + 100)
    distance = 7.0
    rows = head(found, shrinkage, distance)
    size = np.trace(found.within) / len(found.within)
    inverse = np.linalg.inv(found.within + shrinkage * size * np.eye(len(found.within)))
    belief = found.counts / (found.counts + PRIOR)
    centre = found.means.mean(0)
    shrunk = centre + belief[:, None] * (found.means - centre)
    off = x[:, None] - shrunk
    far = np.einsum("nkd,de,nke->nk", off, inverse, off)
    far -= UNSURE * distance * belief**2 / found.counts
    scores = x @ rows.weight.T + rows.bias
    # Equal up to what all classes share.
    assert scores + 0.5 * far == pytest.approx(
        (scores + 0.5 * far)[:, :1].repeat(len(rows.classes), 1), abs=1e-2
    )


def test_the_head_is_that_of_the_space_in_which_samples_are_left_out():
    found = moments(total_of(3))
    x, _ = samples(8)
    white, rows = basis(found).whitened(0.3), head(found, 0.3, 2.0)
    scores = white.of(x) @ white.means.T - 0.5 * (white.means**2).sum(1) + 0.5 * white.credit(2.0)
    assert x @ rows.weight.T + rows.bias == pytest.approx(scores, abs=1e-3)


def test_last_bits_of_other_arithmetic_do_not_reach_the_head():
    found = moments(total_of(3, n=200))
    nearly = Moments(found.classes, found.counts, found.means, found.within * (1 + 1e-15))
    one, other = head(found, 0.3, 2.0), head(nearly, 0.3, 2.0)
    assert np.array_equal(one.weight, other.weight)
    assert np.array_equal(one.bias, other.bias)


def test_with_many_samples_it_is_linear_discriminant_analysis():
    x, y = samples(4, n=4000, dim=6)
    found = moments(fold(contribution(x, y, GRID), GRID))
    rows = head(found, 1e-6, 0.0)
    ours = rows.classes[(x @ rows.weight.T + rows.bias).argmax(1)]
    theirs = LinearDiscriminantAnalysis(priors=[1 / 3] * 3).fit(x, y).predict(x)
    assert (ours == theirs).mean() > 0.99


def test_a_class_of_few_is_believed_less_and_given_credit():
    x, y = samples(5, n=300, classes=2)
    few = contribution(np.concatenate([x, x[:3] + 2]), np.append(y, [2, 2, 2]), GRID)
    white = basis(moments(fold(few, GRID))).whitened(1.0)
    assert white.belief.tolist() == pytest.approx(
        [n / (n + PRIOR) for n in np.bincount(np.append(y, [2, 2, 2]))]
    )
    assert white.credit(4.0)[2] > white.credit(4.0)[0]
