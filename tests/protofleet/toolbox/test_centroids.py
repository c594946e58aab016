"""Clusterings of a device's embeddings, against data whose clusters are known and slow statements
of the same.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protofleet.toolbox import centroids
from protofleet.toolbox.summaries import class_means


def rows_of(prototypes, c):
    return sorted(map(tuple, prototypes.only([c]).vectors.round(4).tolist()))


def blobs(centres, each=20, noise=0.01):
    rng = np.random.default_rng(3)
    return np.concatenate(
        [np.asarray(c) + noise * rng.standard_normal((each, len(c))) for c in centres]
    )


def test_kmeans_finds_the_optimal_split_of_each_class():
    x = np.array([[0.0], [1.0], [10.0], [11.0], [12.0], [5.0], [6.0], [-5.0]])
    y = np.array([2, 2, 2, 2, 2, 7, 7, 7])
    got = centroids.kmeans(x, y, 2, lambda c: c)
    for c in (2, 7):
        points = x[y == c, 0]

        def cost(side, points=points):
            parts = [points[np.array(side)], points[~np.array(side)]]
            return sum(((p - p.mean()) ** 2).sum() for p in parts)

        sides = [
            s for s in itertools.product([True, False], repeat=len(points)) if any(s) and not all(s)
        ]
        best = np.array(min(sides, key=cost))
        assert rows_of(got, c) == sorted([(points[best].mean(),), (points[~best].mean(),)])
    assert got.counts is None


def test_fewer_samples_or_fewer_distinct_ones_than_clusters_give_fewer_centroids():
    x = np.array([[1.0, 0.0], [1.0, 0.0], [3.0, 1.0], *[[4.0, 4.0]] * 6])
    got = centroids.kmeans(x, [0, 0, 1, *[5] * 6], 3, lambda c: c)
    assert got.classes.tolist() == [0, 1, 5]
    assert got.vectors.tolist() == [[1, 0], [3, 1], [4, 4]]


def test_nothing_gives_nothing():
    assert centroids.kmeans(
        np.zeros((0, 3)), np.zeros(0, np.int64), 2, lambda c: c
    ).vectors.shape == (0, 3)


@given(st.integers(0, 2**63 - 1), st.integers(1, 6))
def test_centroids_are_means_of_a_partition_and_follow_the_seed_alone(seed, clusters):
    rng = np.random.default_rng(seed % 1000)
    x, y = rng.standard_normal((25, 3)), rng.integers(0, 3, 25)
    got = centroids.kmeans(x, y, clusters, lambda c: seed ^ c)
    np.random.seed(0)  # noqa: NPY002 (a global generator must not matter)
    assert got == centroids.kmeans(x, y, clusters, lambda c: seed ^ c)
    for c in np.unique(y):
        rows, mine = got.only([c]).vectors, x[y == c]
        assert len(rows) == min(clusters, len(mine))
        # Lloyd's fixed point: every centroid is the mean of the samples nearest to it.
        near = ((mine[:, None] - rows[None]) ** 2).sum(2).argmin(1)
        np.testing.assert_allclose(
            rows, [mine[near == k].mean(0) for k in range(len(rows))], atol=1e-5
        )


def test_one_cluster_is_the_mean():
    x, y = np.random.default_rng(0).standard_normal((30, 4)), np.arange(30) % 4
    assert centroids.kmeans(x, y, 1, lambda c: c) == class_means(x, y, counts=False)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_dbscan_finds_as_many_as_there_are_at_any_scale_and_leaves_outliers_out(scale):
    inside = blobs([(0.0, 0.0), (5.0, 0.0), (0.0, 5.0)])
    x = scale * np.concatenate([inside, [[40.0, 40.0]]])
    got = centroids.dbscan(x, np.zeros(len(x), np.int64), neighbours=5, reach=3.0, most=8)
    assert len(got.vectors) == 3
    want = [scale * inside[i : i + 20].mean(0) for i in (0, 20, 40)]
    near = np.sort(got.vectors, axis=0)
    np.testing.assert_allclose(near, np.sort(np.array(want), axis=0), atol=0.05 * scale)


def test_dbscan_keeps_the_largest_clusters():
    x = np.concatenate([blobs([(0.0, 0.0)], 10), blobs([(9.0, 9.0)], 30), blobs([(0.0, 9.0)], 20)])
    got = centroids.dbscan(x, np.zeros(60, np.int64), neighbours=5, reach=3.0, most=2)
    assert sorted(got.vectors.round().tolist()) == [[0, 9], [9, 9]]


def test_dbscan_sends_the_mean_where_samples_are_few_or_nowhere_dense():
    x = np.array([[0.0], [2.0], *[[10.0**i] for i in range(6)]])
    got = centroids.dbscan(x, [3, 3, *[4] * 6], neighbours=5, reach=0.0, most=8)
    assert got.classes.tolist() == [3, 4]
    np.testing.assert_allclose(got.vectors[:, 0], [1, 111111 / 6], rtol=1e-6)
