"""Figures of merit, each a few lines that scikit-learn's are held against in the tests."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BINS = 15
Numbers = NDArray[np.float64]


def auroc(odd: Numbers, usual: Numbers) -> float:
    """How often one of the odd scores above one of the usual; a tie counts half."""
    order = np.sort(usual)
    below = np.searchsorted(order, odd, "left") + np.searchsorted(order, odd, "right")
    return float(below.mean() / (2 * len(usual)))


def calibration_error(probabilities: Numbers, right: NDArray[np.bool_]) -> float:
    """How far what is said lies from what is true, over equal bins of what is said (ECE)."""
    at = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    gaps = np.bincount(at, probabilities - right, minlength=BINS)
    return float(np.abs(gaps).sum() / len(at))


def harmonic(one: float, two: float) -> float:
    """The mean that is small where either is."""
    return 2 * one * two / (one + two) if one + two else 0.0
