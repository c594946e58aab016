"""Discriminants against scikit-learn's, scipy's densities and the law of total covariance."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.covariance import empirical_covariance

from protofleet.toolbox import discriminant
from protofleet.toolbox.summaries import class_means
from protofleet.values.nearest import head_scores
from protofleet.values.prototypes import Head, Prototypes

D, C = 5, 3


def samples(seed, n=80, offset=0.0):
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(C), rng.integers(0, C, n)])
    mixing = rng.standard_normal((D, D))
    x = (rng.standard_normal((len(y), D)) + 2 * rng.standard_normal((C, D))[y]) @ mixing
    return (x + offset).astype(np.float32), y


@given(st.integers(1, 9), st.integers(0, 99))
def test_a_triangle_is_half_a_symmetric_matrix_and_all_of_it(dim, seed):
    square = np.random.default_rng(seed).standard_normal((dim, dim)).astype(np.float32)
    square = square + square.T
    entries = discriminant.triangle(square)
    assert entries.shape == (dim * (dim + 1) // 2,)
    assert (discriminant.symmetric(entries, dim) == square).all()


def test_the_spread_is_the_covariance_within_classes():
    x, y = samples(3, 300)
    found = discriminant.symmetric(discriminant.spread_within(x, y, class_means(x, y)), D)
    centred = np.concatenate([x[y == c] - x[y == c].mean(0) for c in range(C)])
    expected = empirical_covariance(centred, assume_centered=True)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@given(st.integers(0, 200), st.integers(1, 5))
def test_spread_within_devices_and_between_them_is_that_of_all_samples(seed, parts):
    x, y = samples(seed)
    owner = np.random.default_rng(seed + 1).integers(0, parts, len(y))
    owned = [owner == i for i in range(parts) if (owner == i).any()]
    devices = [class_means(x[mine], y[mine]) for mine in owned]
    within = sum(
        mine.sum() * discriminant.symmetric(discriminant.spread_within(x[mine], y[mine], means), D)
        for mine, means in zip(owned, devices, strict=True)
    ) / len(y)
    everyone = class_means(x, y)
    between = discriminant.spread_between(devices, everyone)
    total = discriminant.symmetric(discriminant.spread_within(x, y, everyone), D)
    scale = np.abs(total).max()
    np.testing.assert_allclose(within + between, total, rtol=1e-4, atol=1e-5 * scale)


@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_scores_differ_as_the_logarithms_of_the_normal_densities(offset):
    x, y = samples(1, 200, offset)
    means = class_means(x, y)
    spread = discriminant.symmetric(discriminant.spread_within(x, y, means), D)
    scores = head_scores(x, discriminant.rows(means, spread, 1e-9), C)
    densities = np.stack(
        [multivariate_normal(mean.astype(float), spread).logpdf(x) for mean in means.vectors], 1
    )
    ours, theirs = (a - a.mean(1, keepdims=True) for a in (scores, densities))
    # Rows are float32: what the offset puts into the bias rounds off in its last digits.
    tolerance = 1e-3 if offset else 1e-5
    np.testing.assert_allclose(ours, theirs, atol=tolerance * np.abs(theirs).max() + 1e-3)


def test_a_very_large_ridge_leaves_the_nearest_mean():
    x, y = samples(2)
    means = class_means(x, y)
    spread = discriminant.symmetric(discriminant.spread_within(x, y, means), D)
    scores = head_scores(x, discriminant.rows(means, spread, 1e6), C)
    distances = ((x[:, None].astype(float) - means.vectors[None]) ** 2).sum(2)
    assert (scores.argmax(1) == distances.argmin(1)).mean() > 0.99


def test_the_ridge_is_relative_so_scale_does_not_matter():
    x, y = samples(4)
    found = []
    for scale in (1.0, 1024.0):  # a power of two: nothing is rounded
        z = x * np.float32(scale)
        means = class_means(z, y)
        spread = discriminant.symmetric(discriminant.spread_within(z, y, means), D)
        found.append(head_scores(z, discriminant.rows(means, spread, 0.1), C))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4, atol=1e-4)


def test_no_variance_at_all_still_makes_rows():
    head = discriminant.rows(Prototypes([1], np.ones((1, D)), [1]), np.zeros((D, D)), 0.01)
    assert np.isfinite(head.weight).all()
    assert np.isfinite(head.bias).all()


@given(st.integers(0, 99), st.sampled_from([0.5, 1.0, 2.0]), st.sampled_from([0.5, 2.0, 50.0]))
def test_the_prior_is_bayes_rule_on_tempered_likelihoods(seed, temper, smooth):
    rng = np.random.default_rng(seed)
    head = Head(np.arange(C), rng.standard_normal((C, D)), rng.standard_normal(C))
    counts, x = rng.integers(0, 20, C), rng.standard_normal((7, D))
    scores = head_scores(x, discriminant.with_prior(head, counts, temper, smooth), C)
    joint = np.exp(head_scores(x, head, C) / temper) * (counts + smooth)
    expected = joint / joint.sum(1, keepdims=True)
    shares = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    np.testing.assert_allclose(shares, expected, rtol=1e-4, atol=1e-6)


def test_a_prior_of_every_class_alike_only_shifts_all_scores():
    head = Head([0, 2], np.eye(2), [0.0, 1.0])  # class 1 is unknown to the fleet
    same = discriminant.with_prior(head, np.full(3, 5), 1.0, 2.0)
    assert (same.weight == head.weight).all()
    assert np.ptp(same.bias - head.bias) < 1e-6
