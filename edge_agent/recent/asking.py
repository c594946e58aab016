"""Which pictures to ask a person about first: those whose names tell the fleet most."""

# Theory of operation
#
# A name says something of the picture that it is given to, and of all that look like it. So the
# next picture is the one that most of what is still doubtful looks like (facility location; greedy
# is within 1 − 1/e of the best set, Nemhauser et al. 1978):
#
#   gain(i) = Σⱼ doubtⱼ · max(0, kᵢⱼ − coverⱼ)
#
#   coverⱼ   the largest k of j with all that were named here or stand before i in the order
#   doubtⱼ   1 for what is unknown, or where not two classes are known; else 1 − (p₁ − p₂), the
#            margin between the two best classes at the temperature that is the usual margin of
#            what waits: nobody has counted how sure a fleet is of its first classes
#   kᵢⱼ      how alike two pictures are: the square of the cosine about the mean of all that are
#            here, nothing below 0
#
# One rule does what is usually three. While nothing is known all doubts are 1, and the order is
# that of heaps: the middle of the largest first, then of the next one, as a person would sort a box
# of photos (the cold start). Once classes are known a heap that the fleet is sure of has no doubts,
# and nobody is asked for it again. In between it asks at the margins, and never twice of the same
# thing.
#
# A picture alike to nothing has a gain of its own doubt alone and comes late: what is seen once is
# rarely worth a class. What is not ordered by gain any more (all is covered) is by doubt.
#
# What was tried, on PACS, which is not what docs/label.md reports (mean accuracy over the first 100
# taps, ten seeds; at random 46.9): the cosine 56.4, its square 57.6, its cube 56.9; its square
# without doubts 53.9; in the space where the few labels that there are make classes round 56.4; the
# most typical of each of as many clusters as there are names (k-means) 51.7; the margin alone 50.1.

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protofleet.statistics.reliability import softmax
from protofleet.values.prototypes import Floats, Ints

Matrix = NDArray[np.float64]

ORDERED = 64  # so many are put in order by gain: more than anybody names at a sitting


def doubts(scores: ArrayLike, unknown: NDArray[np.bool_] | None = None) -> Matrix:
    """Of pictures, a row of scores each."""
    rows = np.asarray(scores, np.float64)
    if rows.shape[1] < 2 or not len(rows):
        doubt: Matrix = np.ones(len(rows))
        return doubt
    best = np.sort(rows, 1)[:, ::-1]
    usual = max(float(np.median(best[:, 0] - best[:, 1])), 1e-9)
    shares = np.sort(softmax(rows / usual), 1)
    doubt = 1.0 - (shares[:, -1] - shares[:, -2])
    return doubt if unknown is None else np.where(unknown, 1.0, doubt)


def directions(features: Floats) -> Matrix:
    """Unit vectors whose inner products are cosines, of a row each."""
    x = np.asarray(features, np.float64)
    offset = x - x.mean(0) if len(x) else x
    length = np.sqrt((offset**2).sum(1, keepdims=True))
    unit: Matrix = offset / np.maximum(length, 1e-12)
    return unit


def order(waiting: Matrix, named: Matrix, doubt: Matrix, most: int = ORDERED) -> Ints:
    """Rows of `waiting`, the first to ask about first; `named` are those that have a name."""
    alike = np.maximum(waiting @ waiting.T, 0.0) ** 2
    cover = np.maximum(waiting @ named.T, 0.0).max(1, initial=0.0) ** 2
    rest, first = np.ones(len(waiting), np.bool_), []
    for _ in range(min(most, len(waiting))):
        gain = np.maximum(alike - cover, 0.0) @ doubt
        gain[~rest] = -1.0
        best = int(gain.argmax())
        first.append(best)
        rest[best] = False
        cover = np.maximum(cover, alike[best])
    others = np.flatnonzero(rest)
    by_doubt = others[np.argsort(-doubt[others], kind="stable")]
    return np.array([*first, *by_doubt.tolist()], np.int64)
