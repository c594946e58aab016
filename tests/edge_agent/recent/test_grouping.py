"""What is alike is one cluster, what is like nothing is in none."""

import numpy as np

from edge_agent.recent.grouping import clustered, cosines, heaps
from protofleet.statistics.closed_form import Moments

RNG = np.random.default_rng(2)


def test_two_things_are_two_clusters_and_noise_is_none():
    # classes are told apart by the first directions; the others vary a hundred times as much
    spread = np.diag([1.0] * 10 + [100.0] * 390)
    of = Moments(np.arange(2), np.array([50.0, 50.0]), np.zeros((2, 400)), spread)
    centres = np.zeros((2, 400))
    centres[0, 2] = centres[1, 7] = 25.0
    noise = RNG.normal(size=(30, 400)) @ np.sqrt(spread)
    things = noise + np.concatenate([centres[[0] * 8], centres[[1] * 12], np.zeros((10, 400))])
    labels = clustered(cosines(things, of, 0.003))
    assert set(labels[:8]) == {1}
    assert set(labels[8:20]) == {0}  # the largest comes first
    assert set(labels[20:]) == {-1}
    # by plain angles all of it is one heap of noise
    plain = Moments(of.classes, of.counts, of.means, np.eye(400))
    assert set(clustered(cosines(things, plain, 0.003))[:8]) != {1}


def test_a_chain_of_neighbours_is_one_cluster_and_its_ends_are_in_it():
    line = np.abs(np.arange(9)[:, None] - np.arange(9)[None]) <= 1
    cosine = np.where(line, 1.0, 0.0)
    assert clustered(cosine, least=3).tolist() == [0] * 9
    assert clustered(cosine, least=4).tolist() == [-1] * 9
    assert clustered(np.zeros((0, 0))).tolist() == []


def test_heaps_are_of_things_with_the_same_neighbours_however_far_apart_these_are():
    centres = RNG.normal(size=(4, 60)) * 4
    sizes = np.repeat(np.arange(4), (30, 20, 12, 7))
    spread = np.array([1.0, 0.3, 2.0, 0.6])[sizes][:, None]
    things = centres[sizes] + RNG.normal(size=(69, 60)) * spread
    things -= things.mean(0)
    unit = things / np.linalg.norm(things, axis=1, keepdims=True)
    labels = heaps(unit @ unit.T)
    several = [set(sizes[labels == n]) for n in range(labels.max() + 1)]
    assert all(len(some) == 1 for some in several)
    assert set.union(*several) == {0, 1, 2, 3}
    assert np.bincount(labels[labels >= 0]).tolist() == sorted(
        np.bincount(labels[labels >= 0]), reverse=True
    )
    assert heaps(np.zeros((0, 0))).tolist() == []
    assert heaps(np.ones((3, 3))).tolist() == [-1] * 3
