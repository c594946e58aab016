"""Mixtures against scikit-learn, EM's own formulas, the integral behind the distance, and algorithm
1 as printed.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats
from sklearn.mixture import GaussianMixture

from protofleet import wire
from protofleet.toolbox import mixtures
from protofleet.values.prototypes import Mixtures

FLOOR = 1e-3


def blobs(seed, sizes, d=3):
    rng = np.random.default_rng(seed)
    x = [rng.normal(size=(n, d)) + 4 * rng.integers(0, 3, (n, 1)) + c for c, n in enumerate(sizes)]
    return np.concatenate(x), np.repeat(np.arange(len(sizes)), sizes)


def test_a_class_is_what_scikit_learn_fits():
    x, y = blobs(0, [60, 80])
    got = mixtures.class_mixtures(x, y, 4, FLOOR, 7)
    assert got.classes.tolist() == [0] * 4 + [1] * 4
    assert got.counts.tolist() == [60, 80]
    for c in (0, 1):
        model = GaussianMixture(4, covariance_type="diag", reg_covar=FLOOR, random_state=7).fit(
            x[y == c]
        )
        np.testing.assert_allclose(got.weights[got.classes == c], model.weights_, rtol=1e-5)
        np.testing.assert_allclose(got.means[got.classes == c], model.means_, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(got.variances[got.classes == c], model.covariances_, rtol=1e-5)


def test_one_more_turn_of_em_changes_little():
    x, _ = blobs(1, [200])
    got = mixtures.class_mixtures(x, np.zeros(200, int), 3, FLOOR, 0)
    pdf = np.stack(
        [
            stats.multivariate_normal(m, np.diag(v)).pdf(x)
            for m, v in zip(got.means, got.variances, strict=True)
        ]
    )
    gamma = got.weights[:, None] * pdf
    gamma /= gamma.sum(0)  # formula 5
    n = gamma.sum(1)
    mean = gamma @ x / n[:, None]  # formula 6, three times
    variance = (
        np.stack([g @ (x - m) ** 2 / k for g, m, k in zip(gamma, mean, n, strict=True)]) + FLOOR
    )
    np.testing.assert_allclose(got.weights, n / 200, atol=1e-3)
    np.testing.assert_allclose(got.means, mean, atol=1e-2)
    np.testing.assert_allclose(got.variances, variance, atol=2e-2)


@given(seed=st.integers(0, 30), sizes=st.lists(st.integers(1, 12), min_size=1, max_size=4))
def test_a_fit_keeps_mean_and_second_moment_of_the_class(seed, sizes):
    x, y = blobs(seed, sizes)
    got = mixtures.class_mixtures(x, y, 4, FLOOR, seed)
    for c, size in enumerate(sizes):
        mine, here = got.classes == c, x[y == c]
        assert mine.sum() == max(1, min(4, size // 2))
        w, mu, var = (part[mine].astype(float) for part in (got.weights, got.means, got.variances))
        np.testing.assert_allclose(w @ mu, here.mean(0), atol=1e-4)
        np.testing.assert_allclose(w @ (var + mu**2), (here**2).mean(0) + FLOOR, rtol=1e-4)


def test_equal_and_dead_features_give_one_component_with_the_floor():
    got = mixtures.class_mixtures(np.full((9, 2), 3.0), np.zeros(9, int), 4, FLOOR, 0)
    assert got.weights.tolist() == [1]
    np.testing.assert_allclose(got.means, [[3, 3]])
    np.testing.assert_allclose(got.variances, FLOOR, rtol=1e-4)
    nothing = mixtures.class_mixtures(np.zeros((0, 2)), np.zeros(0, int), 4, FLOOR, 0)
    assert nothing.classes.size == 0
    assert nothing.dim == 2


@given(m=st.floats(-3, 3), v1=st.floats(0.1, 4), v2=st.floats(0.1, 4))
def test_the_distance_is_minus_the_log_of_the_overlap(m, v1, v2):
    def overlap(x):
        return np.sqrt(stats.norm.pdf(x, 0, np.sqrt(v1)) * stats.norm.pdf(x, m, np.sqrt(v2)))

    wanted = -np.log(integrate.quad(overlap, -40, 40, points=[0, m])[0])
    got = mixtures.bhattacharyya(np.zeros(1), np.array([v1]), np.array([[m]]), np.array([[v2]]))
    assert got[0] == pytest.approx(wanted, abs=1e-6)


def test_the_distance_in_many_dimensions_is_formula_8():
    rng = np.random.default_rng(2)
    m1, m2, v1, v2 = (
        rng.normal(size=4),
        rng.normal(size=4),
        rng.uniform(0.1, 2, 4),
        rng.uniform(0.1, 2, 4),
    )
    s1, s2 = np.diag(v1), np.diag(v2)
    s = (s1 + s2) / 2
    det = np.linalg.det
    wanted = (m1 - m2) @ np.linalg.inv(s) @ (m1 - m2) / 8 + np.log(
        det(s) / np.sqrt(det(s1) * det(s2))
    ) / 2
    assert mixtures.bhattacharyya(m1, v1, m2[None], v2[None])[0] == pytest.approx(wanted)


def components(seed, n, d=2):
    rng = np.random.default_rng(seed)
    return rng.uniform(0.1, 9, n), rng.normal(size=(n, d)) * 2, rng.uniform(0.2, 2, (n, d))


def algorithm_1(w, mu, var, threshold):
    """As printed, with full covariances, seeds by falling weight."""

    def near(i, j):
        return mixtures.bhattacharyya(mu[i], var[i], mu[j : j + 1], var[j : j + 1])[0] < threshold

    left, clusters = sorted(range(len(w)), key=lambda i: -w[i]), []
    while left:
        current = [left.pop(0)]
        while new := [p for p in left if all(near(q, p) for q in current)]:
            current += new
            left = [p for p in left if p not in new]
        clusters.append(current)
    found = []
    for cluster in clusters:
        total = sum(w[j] for j in cluster)
        mean = sum(w[j] * mu[j] for j in cluster) / total
        full = (
            sum(w[j] * (np.diag(var[j]) + np.outer(mu[j] - mean, mu[j] - mean)) for j in cluster)
            / total
        )
        found.append((total, mean, np.diag(full)))
    return [np.array(each) for each in zip(*found, strict=True)]


@given(
    seed=st.integers(0, 200),
    n=st.integers(1, 12),
    threshold=st.sampled_from([0.0, 0.3, 1.0, 3.0, 1e9]),
)
def test_fusion_is_algorithm_1(seed, n, threshold):
    for got, wanted in zip(
        mixtures.fuse_components(*components(seed, n), threshold),
        algorithm_1(*components(seed, n), threshold),
        strict=True,
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-9)


@given(seed=st.integers(0, 200), n=st.integers(1, 12), threshold=st.sampled_from([0.3, 1.0, 3.0]))
def test_fusion_does_not_see_the_order_of_its_rows(seed, n, threshold):
    w, mu, var = components(seed, n)
    w = np.round(w / 3) + 1  # ties
    shuffled = np.random.default_rng(seed + 1).permutation(n)
    one = mixtures.fuse_components(w, mu, var, threshold)
    two = mixtures.fuse_components(w[shuffled], mu[shuffled], var[shuffled], threshold)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)


def moments(several):
    """Mass, first and second moment of each class over weighted mixtures."""
    found = {}
    for weight, part in several:
        for c, count in zip(np.unique(part.classes), part.counts, strict=True):
            rows = part.classes == c
            mass = part.weights[rows].astype(float) * count * weight
            mu, var = part.means[rows].astype(float), part.variances[rows].astype(float)
            here = np.concatenate([[mass.sum()], mass @ mu, mass @ (var + mu**2)])
            found[int(c)] = found.get(int(c), 0) + here
    return found


@given(
    seed=st.integers(0, 50),
    most=st.sampled_from([1, 2, 64]),
    threshold=st.sampled_from([0.0, 1.0, 20.0]),
)
def test_fusion_keeps_mass_mean_and_second_moment_of_every_class(seed, most, threshold):
    sent = [
        (k, mixtures.class_mixtures(*blobs(seed + k, [9, 0, 5 * k]), 3, FLOOR, 0))
        for k in (1, 2, 3)
    ]
    fused = mixtures.fuse(sent, None, threshold, most)
    wanted, got = moments(sent), moments([(1, fused)])
    assert got.keys() == wanted.keys() == {0, 2}
    for c in wanted:
        np.testing.assert_allclose(got[c], wanted[c], rtol=1e-5, atol=1e-4)
    assert np.bincount(fused.classes).max() <= most
    assert fused.counts.tolist() == [9 * 6, 5 * (1 + 4 + 9)]
    as_read = wire.as_received({"m": fused}, "half")["m"]
    np.testing.assert_allclose(as_read.means, fused.means, rtol=1e-3, atol=1e-6)
    np.testing.assert_array_equal(as_read.variances, fused.variances)


def test_a_class_that_nobody_sent_keeps_its_mixture():
    before = Mixtures([0, 0, 3], [0.5, 0.5, 1], np.eye(3), np.ones((3, 3)), [4, 9])
    sent = Mixtures([0, 1], [1, 1], np.ones((2, 3)), np.ones((2, 3)), [2, 0])
    fused = mixtures.fuse([(1, sent)], before, 1.0, 64)
    assert fused.classes.tolist() == [0, 3]
    assert fused.counts.tolist() == [2, 9]
    assert fused.means.tolist() == [[1, 1, 1], [0, 0, 1]]
    assert mixtures.fuse([], before, 1.0, 64) is before
    assert mixtures.fuse([], None, 1.0, 64) is None


def test_pseudo_features_have_the_moments_of_their_mixture():
    known = Mixtures(
        [2, 2, 5], [0.25, 0.75, 1], [[0, 8], [4, 0], [1, 1]], [[1, 1], [4, 0.25], [9, 1]], [10, 20]
    )
    x, y = mixtures.sample(known, 40_000, np.random.default_rng(0))
    assert np.unique(y, return_counts=True)[1].tolist() == [40_000, 40_000]
    two, five = x[y == 2].astype(float), x[y == 5].astype(float)
    np.testing.assert_allclose(two.mean(0), [3, 2], atol=0.06)
    np.testing.assert_allclose(two.var(0), [0.25 + 3 + 3, 0.25 + 0.1875 + 12], rtol=0.03)
    np.testing.assert_allclose(five.var(0), [9, 1], rtol=0.03)
    again, _ = mixtures.sample(known, 40_000, np.random.default_rng(0))
    np.testing.assert_array_equal(x, again)
