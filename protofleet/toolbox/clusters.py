"""Clusters inside a class (FedIC): which devices' prototypes of it look alike."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from protofleet.toolbox.access import need
from protofleet.values.prototypes import Head, Ints, Parts, Prototypes

Groups = dict[int, list[list[int]]]  # class -> groups of devices, by their place in the sequence


def alike(vectors: ArrayLike, most: int, seed: int) -> Ints:
    """A group number a row: k-means on rows scaled to length one, so that nearness is cosine (FedIC
    (6)).
    """
    from sklearn.cluster import KMeans

    # On the unit sphere ‖a − b‖² = 2 − 2cos: Euclidean k-means on directions groups by cosine. A
    # mean of zeros has no direction and stays at the origin, equally far from all.
    x = np.asarray(vectors, np.float64)
    unit = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    k = min(most, len(np.unique(unit, axis=0)))
    # More clusters than different directions would warn and leave some empty.
    if k <= 1:
        return np.zeros(len(x), np.int64)
    # Ten starts: the server has time, and a bad start would tear devices apart that are alike.
    labels = KMeans(k, n_init=10, random_state=seed % 2**32).fit_predict(unit)
    # Renumbered without gaps, as a cluster may come out empty.
    result: Ints = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    return result


def within_classes(devices: Sequence[Prototypes], most: int, seed: Callable[[int], int]) -> Groups:
    """For each class that anybody has, the groups of its holders; `seed(c)` seeds the clustering of
    class c.
    """
    # Class by class and each from its own seed: who holds class 3 does not change the groups of
    # class 4.
    groups: Groups = {}
    for c in np.unique(np.concatenate([means.classes for means in devices])).tolist():
        holders = [i for i, means in enumerate(devices) if c in means.classes]
        labels = alike(
            np.concatenate([devices[i].only([c]).vectors for i in holders]), most, seed(c)
        )
        groups[c] = [
            [i for i, at in zip(holders, labels, strict=True) if at == g] for g in np.unique(labels)
        ]
    return groups


def group_means(
    devices: Sequence[Prototypes], weights: Sequence[int], groups: Groups
) -> list[Prototypes]:
    """Every device's prototypes with each row replaced by the mean of its group, weighted by counts
    (FedIC (7)).
    """
    # In doubles, over members in the order of the devices' names, and written once: all members of
    # a group get the same bits, which is what a group is.
    anchors = [np.array(means.vectors) for means in devices]
    for c, of_class in groups.items():
        row = [int(np.searchsorted(means.classes, c)) for means in devices]
        for members in of_class:
            n = np.array(
                [weights[i] * int(np.asarray(devices[i].counts)[row[i]]) for i in members],
                np.float64,
            )
            vectors = np.stack([devices[i].vectors[row[i]] for i in members]).astype(np.float64)
            mean = n @ vectors / n.sum()
            for i in members:
                anchors[i][row[i]] = mean
    return [Prototypes(means.classes, rows) for means, rows in zip(devices, anchors, strict=True)]


def for_member(i: int, heads: Sequence[Head], groups: Groups) -> dict[str, Head]:
    """The rows that device i combines, as parts of its own: of every device those of the classes in
    which both are of one group, its own among them.
    """
    shared: dict[int, list[int]] = {}
    for c, of_class in groups.items():
        for j in next((group for group in of_class if i in group), ()):
            shared.setdefault(j, []).append(c)
    # In the order of the agents' names, which the parts do not tell.
    return {f"mate.{at}": heads[j].only(shared[j]) for at, j in enumerate(sorted(shared))}


def mates(parts: Parts) -> list[Head]:
    """These rows, read back."""
    names = itertools.takewhile(parts.__contains__, map("mate.{}".format, itertools.count()))
    return [need(parts, name, Head) for name in names]


def filled(first: Prototypes, rest: Prototypes) -> Prototypes:
    """The first's rows, and the rest's for classes it has not."""
    more = rest.only(np.setdiff1d(rest.classes, first.classes))
    if not more.classes.size:
        return Prototypes(first.classes, first.vectors)
    return Prototypes(
        np.concatenate([first.classes, more.classes]), np.concatenate([first.vectors, more.vectors])
    )
