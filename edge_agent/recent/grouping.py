"""Unknown things that are alike: clusters in the space in which the fleet's classes are round."""

# Theory of operation
#
# DBSCAN (Ester et al. 1996): two things are neighbours if they are near; a thing with enough of
# them, itself among these, is the core of a cluster, and all that are reached from core to core by
# neighbours belong to it. What is reached by none is alone, and stays out.
#
# Near is measured by the cosine of the angle at m₀, the middle of all classes, after S_ρ was made
# the identity (`statistics.closed_form`): with z = f − m₀
#
#   cos(i, j) = zᵢᵀ S_ρ⁻¹ zⱼ / √(zᵢᵀ S_ρ⁻¹ zᵢ · zⱼᵀ S_ρ⁻¹ zⱼ)
#
# Why the angle and not the distance: in a thousand dimensions all distances between samples are
# nearly the same, and how far a class lies out differs; the angle of two different classes is
# nearly a right one. Measured on office-caltech, each class held back in turn, on what the fleet
# then called unknown: of two different things the cosine is above 0.15 in one pair of a hundred,
# and the largest cluster at 0.3 holds 93 to 100 % of that class, and nearly all of it that was
# called unknown. On drawings and paintings (PACS) a class falls apart into several clusters, each
# of one class.
#
# That takes the fleet's sums, and a space that many labels made. While nothing is known yet the
# angle about the mean of all that waits has no such threshold: at 0.3 all photographs of a camera
# are one cluster, at 0.7 some are and some are not. So `heaps` asks whether two things have the
# same neighbours. Of 400 photographs of a camera without a label (office-caltech and PACS, eight
# cameras) 54 of the 64 largest heaps were of one class each, and 791 of the 810 photographs in them
# of the class that most of their heap was.

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_agent.updates import cache
from protofleet.exchange.published import Bank
from protofleet.statistics.closed_form import Moments
from protofleet.values.prototypes import Floats, Head, Ints

NEAR = 0.3  # cosine from which two are neighbours
LEAST = 4  # neighbours of a core, itself among them
NEAREST = (12, 8, 5)  # of which heaps are made


def cosines(features: Floats, of: Moments, shrinkage: float) -> NDArray[np.float64]:
    """Of each with each."""
    z = np.asarray(features, np.float64) - of.centre
    inner = z @ np.linalg.solve(of.shrunk(shrinkage), z.T)
    length = np.sqrt(np.maximum(np.diag(inner), 1e-12))
    cosine: NDArray[np.float64] = inner / np.outer(length, length)
    return cosine


def by_sums(bundle: Path, bank: Bank, features: Sequence[Floats]) -> NDArray[np.float64] | None:
    """The same by the fleet's sums beside a bundle; None where they are not there."""
    total, choice = cache.total(bundle, bank), bank.about.calibration
    if total is None or choice is None or not isinstance(bank.points, Head):
        return None
    return cosines(np.stack(features), total[1], choice.shrinkage)


def heaps(cosine: NDArray[np.float64]) -> Ints:
    """The heap of each, the largest is 0; −1 for what is alone. Where nothing tells how near near
    is: two things are neighbours if each is among the other's nearest and half of these are the
    same (Ertöz et al. 2003). Looked for in large heaps first, then in smaller ones of the rest.
    """
    count = len(cosine)
    labels = np.full(count, -1, np.int64)
    alike = np.where(np.eye(count, dtype=np.bool_), -np.inf, cosine)
    order = np.argsort(-alike, 1)
    for nearest in NEAREST:
        rest = np.flatnonzero(labels < 0)
        if count < 2 * nearest or len(rest) < LEAST:  # or nearly all are everybody's neighbours
            continue
        near = np.zeros((count, count), np.bool_)
        near[np.arange(count)[:, None], order[:, :nearest]] = True
        mutual = near & near.T
        shared = mutual.astype(np.float32) @ mutual.T.astype(np.float32)
        joined = (mutual & (shared >= nearest // 2)) | np.eye(count, dtype=np.bool_)
        part = clustered(joined[np.ix_(rest, rest)].astype(np.float64))
        labels[rest[part >= 0]] = part[part >= 0] + labels.max(initial=-1) + 1
    return _by_size(labels)


def clusters(keys: Sequence[str], labels: Ints) -> list[list[str]]:
    """The keys of each cluster, the largest first."""
    return [
        [key for key, label in zip(keys, labels, strict=True) if label == number]
        for number in range(int(labels.max(initial=-1)) + 1)
    ]


def clustered(cosine: NDArray[np.float64], near: float = NEAR, least: int = LEAST) -> Ints:
    """The cluster of each, the largest is 0; −1 for what is alone."""
    neighbours = cosine >= near
    core = neighbours.sum(1) >= least
    labels = np.full(len(cosine), -1, np.int64)
    count = 0
    for first in np.flatnonzero(core):
        if labels[first] >= 0:
            continue
        labels[first], stack = count, [int(first)]
        while stack:
            here = stack.pop()
            if core[here]:
                fresh = np.flatnonzero(neighbours[here] & (labels < 0))
                labels[fresh] = count
                stack += fresh.tolist()
        count += 1
    return _by_size(labels)


def _by_size(labels: Ints) -> Ints:
    sizes = np.bincount(labels[labels >= 0])
    rank = np.empty(len(sizes), np.int64)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    return np.where(labels >= 0, rank[labels] if len(sizes) else -1, -1)
