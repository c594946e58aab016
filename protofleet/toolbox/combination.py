"""Rows of several heads, combined so that one device errs least on samples of its own (FedIC (11),
(12)).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protofleet.toolbox.softlabels import softmax
from protofleet.values.prototypes import Head, Ints

Matrix = NDArray[np.float64]
_STEPS = 2000
_GAP = 1e-7  # of the mean cross-entropy: what is at most left to gain when the search ends


def learnt(own: Head, mates: Sequence[Head], x: ArrayLike, labels: ArrayLike) -> Head:
    """The rows of classes that some mate has, in the convex combination of least cross-entropy.

    `own` is the device's whole head; its rows of classes that no mate has take part as they are.
    """
    features, y = np.asarray(x, np.float64), np.asarray(labels, np.int64)
    base = _scores(own, own.classes, features)
    # Of each class that can be combined what every mate's row scores the samples: logits are linear
    # in β, so nothing of the features is needed from here on.
    options: dict[int, Matrix] = {}
    for c in own.classes.tolist():
        several = [mate for mate in mates if c in mate.classes]
        if several:
            columns = [_scores(mate, np.array([c]), features) for mate in several]
            options[c] = np.concatenate(columns, axis=1)
    at = np.searchsorted(own.classes, list(options))
    target = np.searchsorted(own.classes, y)
    betas = _minimum(base, at, list(options.values()), target)
    weight, bias = [], []
    for c, beta in zip(options, betas, strict=True):
        members = [mate.only([c]) for mate in mates if c in mate.classes]
        weight.append(beta @ np.stack([mate.weight[0] for mate in members]).astype(np.float64))
        bias.append(float(beta @ np.array([mate.bias[0] for mate in members], np.float64)))
    rows = np.array(weight, np.float64).reshape(len(options), own.weight.shape[1])
    return Head(
        np.array(list(options), np.int64), rows.astype(np.float32), np.array(bias, np.float32)
    )


def onto_simplex(v: ArrayLike) -> Matrix:
    """The nearest point whose entries are ≥ 0 and sum to 1."""
    # Sorted, the entries that stay positive come first; all of them are lowered by the same amount.
    x = np.asarray(v, np.float64)
    falling = np.sort(x)[::-1]
    surplus = (np.cumsum(falling) - 1) / np.arange(1, len(x) + 1)
    result: Matrix = np.maximum(x - surplus[np.flatnonzero(falling > surplus)[-1]], 0)
    return result


def _scores(head: Head, classes: Ints, x: Matrix) -> Matrix:
    rows = head.only(classes)
    scores: Matrix = x @ rows.weight.T.astype(np.float64) + rows.bias.astype(np.float64)
    return scores


def _minimum(base: Matrix, at: Ints, options: Sequence[Matrix], target: Ints) -> list[Matrix]:
    """β of each class: min mean CE over a product of simplices, by accelerated projected
    gradient.
    """
    # A convex program: cross-entropy is convex in the logits, and those are linear in β. Its
    # curvature in the logits is at most ½, and classes do not share coordinates, so the largest
    # singular value of a class's scores bounds the step for all. About their mean over the members,
    # since a common part of them does not depend on β.
    n = len(base)
    betas = [np.full(scores.shape[1], 1 / scores.shape[1]) for scores in options]
    centred = [scores - scores.mean(1, keepdims=True) for scores in options]
    curvature = max((np.linalg.norm(scores, 2) ** 2 / (2 * n) for scores in centred), default=0.0)
    if curvature == 0:
        return betas  # nobody differs from anybody: evenly
    ahead, momentum = [beta.copy() for beta in betas], 1.0
    for _ in range(_STEPS):
        slopes = _slopes(base, at, options, target, ahead)
        moved = [
            onto_simplex(beta - slope / curvature)
            for beta, slope in zip(ahead, slopes, strict=True)
        ]
        # Nesterov's momentum, begun anew where it points uphill.
        uphill = sum(
            float(slope @ (new - old)) for slope, new, old in zip(slopes, moved, betas, strict=True)
        )
        following = 1.0 if uphill > 0 else (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        share = 0.0 if uphill > 0 else (momentum - 1) / following
        ahead = [new + share * (new - old) for new, old in zip(moved, betas, strict=True)]
        betas, momentum = moved, following
        # The gap of Frank and Wolfe bounds what is left to gain.
        slopes = _slopes(base, at, options, target, betas)
        gap = sum(
            float(slope @ beta - slope.min()) for slope, beta in zip(slopes, betas, strict=True)
        )
        if gap <= _GAP:
            break
    return betas


def _slopes(
    base: Matrix, at: Ints, options: Sequence[Matrix], target: Ints, betas: Sequence[Matrix]
) -> list[Matrix]:
    logits = base.copy()
    for column, scores, beta in zip(at, options, betas, strict=True):
        logits[:, column] = scores @ beta
    error = softmax(logits)
    error[np.arange(len(target)), target] -= 1
    return [
        scores.T @ error[:, column] / len(base) for column, scores in zip(at, options, strict=True)
    ]
