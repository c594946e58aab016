"""The classifier of a total, against its formulas written out sample by sample."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from protofleet.statistics.closed_form import Belief, Moments, head, moments
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
    centre = found.means.mean(0)
    apart = np.einsum("kd,de,ke->k", found.means - centre, inverse, found.means - centre)
    usual = found.counts >= min(20, np.median(found.counts))
    between = max((apart - distance / found.counts)[usual].mean(), distance / 32)
    belief = between / (between + distance / found.counts)
    shrunk = centre + belief[:, None] * (found.means - centre)
    off = x[:, None] - shrunk
    far = np.einsum("nkd,de,nke->nk", off, inverse, off)
    far -= belief**2 * distance / found.counts + (1 - belief) ** 2 * between
    scores = x @ rows.weight.T + rows.bias
    # Equal up to what all classes share.
    assert scores + 0.5 * far == pytest.approx(
        (scores + 0.5 * far)[:, :1].repeat(len(rows.classes), 1), abs=1e-2
    )


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


def test_a_class_of_few_is_believed_less_and_given_back_what_that_costs():
    counts, apart, distance = np.array([400.0, 300.0, 500.0, 5.0]), np.array([9.0, 7, 8, 30]), 40.0
    belief = Belief.of(counts, apart, distance)
    between = np.mean([9 - 40 / 400, 7 - 40 / 300, 8 - 40 / 500])  # not of the class of five
    assert belief.shares == pytest.approx(between / (between + distance / counts))
    # What is expected of d: the variance of the mean that is used, and how far it was moved.
    due = belief.shares**2 * distance / counts + (1 - belief.shares) ** 2 * between
    assert belief.credit == pytest.approx(due)


def test_where_classes_hardly_lie_apart_means_are_believed_all_the_same():
    belief = Belief.of(np.array([32.0, 32.0]), np.zeros(2), 10.0)
    assert belief.shares == pytest.approx([0.5, 0.5])


def test_a_sample_of_a_small_class_scores_what_one_of_a_large_class_does():
    """On average over what five samples may be: so one threshold of oddness serves both."""
    rng = np.random.default_rng(4)
    dim, draws, scores = 200, 400, []
    for few in (5, 2000):
        counts = np.array([2000.0] * 12 + [few])
        for _ in range(draws):
            means = rng.normal(size=(13, dim)) * 0.4
            seen = means + rng.normal(size=(13, dim)) / np.sqrt(counts)[:, None]
            of = Moments(np.arange(13), counts, seen, np.eye(dim))
            rows = head(of, 1e-9, float(dim))
            x = means[12] + rng.normal(size=dim)
            scores.append(rows.weight[12] @ x + rows.bias[12])
    few, many = np.mean(scores[:draws]), np.mean(scores[draws:])
    assert few == pytest.approx(many, abs=0.1 * many)
