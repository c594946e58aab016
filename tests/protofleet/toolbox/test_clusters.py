"""Clusters inside a class, against exhaustive search and hand-made numbers."""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protofleet.toolbox import clusters
from protofleet.values.prototypes import Prototypes


def cost(unit, labels):
    return sum(
        ((unit[labels == g] - unit[labels == g].mean(0)) ** 2).sum() for g in np.unique(labels)
    )


@given(st.integers(3, 7), st.integers(2, 3), st.integers(0, 10**6))
@settings(max_examples=20)
def test_no_other_grouping_of_the_directions_is_tighter(n, k, seed):
    x = np.random.default_rng(seed).normal(size=(n, 5))
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    least = min(cost(unit, np.array(each)) for each in itertools.product(range(k), repeat=n))
    # k-means with ten starts may end a little above the optimum.
    assert cost(unit, clusters.alike(x, k, seed)) <= 1.05 * least + 1e-9


def test_length_does_not_matter_and_direction_does():
    x = np.array([[1.0, 0.0], [100.0, 1.0], [0.0, 1.0], [0.5, 90.0]])
    labels = clusters.alike(x, 2, 0)
    assert labels[0] == labels[1] != labels[2] == labels[3]


@pytest.mark.parametrize("rows", [[[1.0, 0.0]], [[1.0, 0.0], [2.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]])
def test_never_more_clusters_than_different_holders(rows):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert clusters.alike(rows, 3, 0).tolist() == [0] * len(rows)


DEVICES = [
    Prototypes([0, 1], [[1.0, 0.0], [0.0, 2.0]], [1, 4]),
    Prototypes([0], [[4.0, 0.4]], [3]),
    Prototypes([0, 2], [[0.0, 5.0], [7.0, 7.0]], [2, 2]),
]


def test_groups_hold_every_holder_once_and_means_are_weighted_by_counts():
    groups = clusters.within_classes(DEVICES, 2, lambda c: c)
    assert sorted(map(tuple, groups[0])) == [(0, 1), (2,)]
    assert groups[1] == [[0]]
    assert groups[2] == [[2]]
    anchors = clusters.group_means(DEVICES, [1, 1, 1], groups)
    np.testing.assert_allclose(
        anchors[0].vectors, [[13 / 4, 1.2 / 4], [0, 2]], rtol=1e-6
    )  # (1·1 + 3·4) / 4
    np.testing.assert_allclose(anchors[1].vectors, [[13 / 4, 1.2 / 4]], rtol=1e-6)
    assert anchors[2].vectors.tolist() == [[0, 5], [7, 7]]
    heavier = clusters.group_means(DEVICES, [3, 1, 1], groups)
    np.testing.assert_allclose(heavier[0].vectors[0], [15 / 6, 1.2 / 6], rtol=1e-6)


def test_one_cluster_is_the_global_mean():
    anchors = clusters.group_means(
        DEVICES, [1, 1, 1], clusters.within_classes(DEVICES, 1, lambda c: c)
    )
    for means in anchors:
        np.testing.assert_allclose(means.vectors[0], [13 / 6, 11.2 / 6], rtol=1e-6)


def test_what_one_has_not_comes_from_the_rest():
    everyone = Prototypes([0, 1, 2], [[0.0, 0.0], [9.0, 9.0], [2.0, 2.0]])
    made = clusters.filled(Prototypes([1], [[1.0, 1.0]], [5]), everyone)
    assert made == Prototypes([0, 1, 2], [[0, 0], [1, 1], [2, 2]])
    assert clusters.filled(made, made) == made
