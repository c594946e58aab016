"""Classification by distance, in matrix products: the nearest prototype, or the likeliest mixture.

Scores are higher for better classes and −inf for classes that have nothing to compare with, so that
an argmax over any choice of classes is the answer.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protofleet.values.prototypes import Head, Mixtures, Prototypes

Metric = Literal["euclidean", "cosine"]
Scores = NDArray[np.float64]


def squared_distances(x: ArrayLike, points: ArrayLike) -> Scores:
    """‖x − p‖² for every pair, [N, P], as ‖x‖² − 2x·p + ‖p‖² about the points' centre, where little
    cancels.
    """
    p = np.asarray(points, np.float64)
    centre = p.mean(0) if len(p) else 0.0
    p = p - centre
    a = np.asarray(x, np.float64) - centre
    distances: Scores = (a**2).sum(1)[:, None] - 2.0 * (a @ p.T) + (p**2).sum(1)[None, :]
    return np.maximum(distances, 0.0)


def cosines(x: ArrayLike, points: ArrayLike) -> Scores:
    """The cosine of every pair, [N, P]; the zero vector is at cosine 0 to everything."""
    result: Scores = _unit(x) @ _unit(points).T
    return result


def prototype_scores(
    x: ArrayLike, prototypes: Prototypes, n_classes: int, metric: Metric = "euclidean"
) -> Scores:
    """Per class the score of its best prototype, [N, C]: minus the squared distance, or the
    cosine.
    """
    x = np.asarray(x)
    scores = np.full((len(x), n_classes), -np.inf)
    if not prototypes.classes.size:
        return scores
    pairs = (
        -squared_distances(x, prototypes.vectors)
        if metric == "euclidean"
        else cosines(x, prototypes.vectors)
    )
    # Rows are sorted by class, so a class is a run of rows: what reduceat takes.
    present, first = np.unique(prototypes.classes, return_index=True)
    scores[:, present] = np.maximum.reduceat(pairs, first, axis=1)
    return scores


def mixture_scores(x: ArrayLike, mixtures: Mixtures, n_classes: int) -> Scores:
    """Per class log Σ_k w_k N(x; μ_k, diag v_k), [N, C]."""
    a = np.asarray(x, np.float64)
    scores = np.full((len(a), n_classes), -np.inf)
    if not mixtures.classes.size:
        return scores
    mean, variance = mixtures.means.astype(np.float64), mixtures.variances.astype(np.float64)
    centre = mean.mean(0)
    a, mean = a - centre, mean - centre
    precision = 1.0 / variance
    # Σ_i (x_i − μ_i)² / v_i, one product per power of x.
    spread = a**2 @ precision.T - 2.0 * a @ (mean * precision).T + (mean**2 * precision).sum(1)
    with np.errstate(divide="ignore"):
        weight = np.log(mixtures.weights.astype(np.float64))
    constant = weight - 0.5 * np.log(2 * np.pi * variance).sum(1)
    # What cancels in `spread` may leave it a little below 0: a density above its own peak.
    components = constant - 0.5 * np.maximum(spread, 0.0)
    present, first = np.unique(mixtures.classes, return_index=True)
    # log Σ exp with the largest term taken out: in a hundred dimensions every density underflows.
    top = np.maximum.reduceat(components, first, axis=1)
    widths = np.diff([*first, components.shape[1]])
    scores[:, present] = top + np.log(
        np.add.reduceat(np.exp(components - np.repeat(top, widths, axis=1)), first, axis=1)
    )
    return scores


def head_scores(x: ArrayLike, head: Head, n_classes: int) -> Scores:
    """Per class its row's w·x + b, [N, C]."""
    a = np.asarray(x, np.float64)
    scores = np.full((len(a), n_classes), -np.inf)
    scores[:, head.classes] = a @ head.weight.T.astype(np.float64) + head.bias.astype(np.float64)
    return scores


def best(scores: Scores, among: ArrayLike | None = None) -> NDArray[np.int64]:
    """The class with the highest score, of all or among some; −1 where no class can be compared
    with.
    """
    scores = np.asarray(scores)
    if among is not None:
        choice = np.full(scores.shape[1], -np.inf)
        choice[np.asarray(among, np.int64)] = 0.0
        scores = scores + choice
    if not scores.shape[1]:
        return np.full(len(scores), -1, np.int64)
    answer = scores.argmax(1)
    return np.where(np.isneginf(scores[np.arange(len(scores)), answer]), -1, answer).astype(
        np.int64
    )


def _unit(x: ArrayLike) -> Scores:
    a = np.asarray(x, np.float64)
    unit: Scores = a / np.maximum(np.linalg.norm(a, axis=1, keepdims=True), 1e-12)
    return unit
