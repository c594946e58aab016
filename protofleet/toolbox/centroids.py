"""Several prototypes a class: the means of what a clustering finds in a device's embeddings, class
by class.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protofleet.toolbox.summaries import class_means
from protofleet.values.prototypes import Ints, Prototypes

Rows = NDArray[np.float64]


def kmeans(
    features: ArrayLike, labels: ArrayLike, clusters: int, seed: Callable[[int], int]
) -> Prototypes:
    """Centroids of each class by k-means from random samples (MP-FedCL (7)), at most as many as it
    has samples.

    `seed(c)` is a number for class c.
    """

    def groups(rows: Rows, c: int) -> Ints:
        # No more samples than clusters: each distinct sample is its own centroid. k-means would
        # find the same or refuse (scikit-learn wants n ≥ k), and start from random to get there.
        if len(rows) <= clusters:
            return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
        from sklearn.cluster import KMeans
        from sklearn.exceptions import ConvergenceWarning

        with warnings.catch_warnings():
            # It warns where there are fewer distinct samples than clusters; fewer centroids are
            # right.
            warnings.simplefilter("ignore", ConvergenceWarning)
            # From random samples and once, as the paper says: k-means++ with ten starts would be
            # better centroids than the paper's. A seed of 64 bits is cut to the 32 that the library
            # takes.
            start = KMeans(clusters, init="random", n_init=1, random_state=seed(c) % 2**32)
            return np.asarray(start.fit_predict(rows), np.int64)

    return _means_of(features, labels, groups)


def dbscan(
    features: ArrayLike, labels: ArrayLike, neighbours: int, reach: float, most: int
) -> Prototypes:
    """Means of each class's clusters by DBSCAN, the largest ones where there are more than `most`.

    Its radius is `reach` times the median distance of the class's samples to their `neighbours`-th
    (themselves included), so that it follows the scale of the embedding. A class in which nothing
    is dense sends its mean.
    """

    def groups(rows: Rows, c: int) -> Ints:
        one_group = np.zeros(len(rows), np.int64)
        if len(rows) < neighbours:
            return one_group
        from sklearn.cluster import DBSCAN
        from sklearn.neighbors import NearestNeighbors

        near = NearestNeighbors(n_neighbors=neighbours).fit(rows).kneighbors(rows)[0][:, -1]
        # Identical samples have a median distance of 0, and the library refuses a radius of 0.
        radius = max(reach * float(np.median(near)), 1e-9)
        group = np.asarray(DBSCAN(eps=radius, min_samples=neighbours).fit_predict(rows), np.int64)
        if (group < 0).all():
            return one_group
        # Stable, so that of equally large clusters the one that was found first stays: samples are
        # in the order of the data set, and the outcome is the same on every machine.
        sizes = np.bincount(group[group >= 0])
        largest = np.argsort(-sizes, kind="stable")[:most]
        return np.where(np.isin(group, largest), group, -1)

    return _means_of(features, labels, groups)


def _means_of(
    features: ArrayLike, labels: ArrayLike, groups: Callable[[Rows, int], Ints]
) -> Prototypes:
    """The mean of every group within every class; rows of group −1 belong to none."""
    x, y = np.asarray(features, np.float64), np.asarray(labels, np.int64)
    classes: list[Ints] = []
    vectors = [np.zeros((0, x.shape[1]), np.float32)]
    for c in np.unique(y):
        rows = x[y == c]
        group = groups(rows, int(c))
        # Means taken here, in one order, rather than the library's, which are summed by its
        # threads.
        means = class_means(rows[group >= 0], group[group >= 0], counts=False)
        classes.append(np.full(len(means.classes), c))
        vectors.append(means.vectors)
    return Prototypes(np.concatenate([np.zeros(0, np.int64), *classes]), np.concatenate(vectors))
