"""What an upload says of how its samples spread: the trace of that.

Two forms travel, and both are covariances whoever sends them: a mixture's variances are a diagonal,
positive by their own class, and a factor's square (`protofleet.statistics.contribution`) has no
negative direction. So its size is all there is to bound.
"""

from __future__ import annotations

import numpy as np

from protofleet.statistics.contribution import LEAST, MEANS, SCATTER
from protofleet.values.prototypes import Mixtures, Parts, Prototypes, Tensors


def trace(parts: Parts) -> float:
    """The largest that this upload says; 0 where it says nothing of it."""
    largest = 0.0
    for name, part in parts.items():
        if isinstance(part, Mixtures):
            largest = max(largest, float(part.variances.sum(1, dtype=np.float64).max(initial=0.0)))
        elif isinstance(part, Tensors) and name == SCATTER:
            largest = max(largest, _of_factor(part, parts))
    return largest


def _of_factor(part: Tensors, parts: Parts) -> float:
    """Of rows times their powers of two and a diagonal, a sample's share."""
    rows, exponents, residual = (part.arrays.get(n) for n in ("rows", "exponents", "residual"))
    means = parts.get(MEANS)
    if rows is None or exponents is None or residual is None or not isinstance(means, Prototypes):
        return 0.0  # the fold says what is missing
    if rows.ndim != 2 or exponents.shape != rows.shape[:1] or means.counts is None:
        return 0.0
    diagonal = np.abs(residual).sum(dtype=np.float64)
    squares = ((rows - 128.0) ** 2).sum(1) * 4.0 ** (exponents.clip(0, 64) + LEAST)
    samples = max(int(means.counts.sum()), 1)
    return (float(squares.sum()) + float(diagonal)) / samples
