"""Linear discriminants from what devices can add up: class means, and one covariance within classes
for all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protofleet.values.prototypes import Floats, Head, Prototypes

Matrix = NDArray[np.float64]


def spread_within(features: ArrayLike, labels: ArrayLike, means: Prototypes) -> Floats:
    """The mean outer product of samples less their class's mean: the upper triangle, row by row."""
    # Divided by n and not by n − C: weighted by n, the devices' spreads must add up to that of all
    # samples (law of total covariance), of which `spread_between` is the other part. About the
    # means in float32, as they are sent, so that both parts are about the same points but for
    # what the wire rounds off.
    x = (
        np.asarray(features, np.float64)
        - means.vectors[np.searchsorted(means.classes, np.asarray(labels))]
    )
    return triangle(x.T @ x / len(x))


def spread_between(devices: Sequence[Prototypes], centres: Prototypes) -> Matrix:
    """The mean outer product of the devices' means less their class's centre, by samples (total
    covariance).
    """
    counts = np.concatenate([np.asarray(means.counts, np.float64) for means in devices])
    # `searchsorted` takes for granted that every class of a device is among the centres: they are
    # the fusion of these very devices.
    off = np.concatenate(
        [
            means.vectors - centres.vectors[np.searchsorted(centres.classes, means.classes)]
            for means in devices
        ]
    ).astype(np.float64)
    result: Matrix = (off * counts[:, None]).T @ off / counts.sum()
    return result


def triangle(symmetric: Matrix) -> Floats:
    """What of a symmetric matrix has to travel."""
    return symmetric[np.triu_indices(len(symmetric))].astype(np.float32)


def symmetric(entries: ArrayLike, dim: int) -> Matrix:
    """The matrix of such a triangle."""
    whole = np.zeros((dim, dim))
    whole[np.triu_indices(dim)] = np.asarray(entries, np.float64)
    result: Matrix = whole + np.triu(whole, 1).T
    return result


def rows(means: Prototypes, spread: Matrix, ridge: float) -> Head:
    """log N(f; μ_c, S) up to what all classes share, as w·f + b; S is the spread and `ridge` of its
    mean variance.
    """
    # log N(f; μ_c, S) = w_cᵀf + b_c + what no class differs in. All means are taken about their
    # common centre, which moves b and no difference of scores: the embedding's offset from zero is
    # large beside what separates the classes, and ½μᵀS⁻¹μ would cancel in its last digits. The
    # ridge is a share of the mean variance, so that it means the same at any scale; it also makes S
    # regular where a device has fewer samples than d. `or 1.0`: a lone sample has no variance at
    # all.
    centre = means.vectors.astype(np.float64).mean(0)
    off = means.vectors - centre
    size = float(np.trace(spread)) / len(spread) or 1.0
    weight = np.linalg.solve(spread + ridge * size * np.eye(len(spread)), off.T).T
    bias = -0.5 * (weight * off).sum(1) - weight @ centre
    return Head(means.classes, weight.astype(np.float32), bias.astype(np.float32))


def with_prior(head: Head, counts: ArrayLike, temper: float, smooth: float) -> Head:
    """Less sure by `temper`, and classes as likely beforehand as these counts and `smooth` more of
    each say.
    """
    # Bayes: the score is log-likelihood + log-prior. Dividing the first by T > 1 makes up for
    # dimensions that are not independent, as the model has them, and would drown any prior.
    # `smooth` > 0 keeps log finite for a class that the device never held, which it may meet all
    # the same.
    prior = np.asarray(counts, np.float64)[head.classes] + smooth
    log_prior = np.log(prior / prior.sum())
    return Head(
        head.classes,
        head.weight / np.float32(temper),
        (head.bias / temper + log_prior).astype(np.float32),
    )
