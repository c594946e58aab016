"""Shrinkage before any device has said how well the total would classify: from the total alone."""

# Theory of operation
#
# Where a class is Gaussian about its mean with covariance Σ, the scatter W = N S of N samples of K
# classes has a Wishart density with N − K degrees of freedom. Take for Σ the inverse Wishart prior
# that says "round, of the usual size": scale ψ I and ν degrees, ψ = σ² (ν − d − 1), σ² = tr S/d.
# Its posterior mean is (W + ψ I)/(N + ν − d − 1), which is S shrunk by
#
#   ρ = ψ/(N σ²) = (ν − d − 1)/N
#
# so each ρ of the grid is a prior, and the one that makes W most likely is taken:
#
#   log p(W | ρ) = ν/2 · d log ψ − (ν + N − K)/2 · log|ψ I + W|
#                  + log Γ_d((ν + N − K)/2) − log Γ_d(ν/2) + what no ρ changes
#
# Only the eigenvalues of S are needed. Features are not Gaussian: held-out counts are better,
# and replace this as soon as there are any.

from __future__ import annotations

import math

import numpy as np

from protofleet.statistics.closed_form import SHRINKAGE, Moments
from protofleet.statistics.held_out import Choice

TEMPERATURE = 3.0  # what held-out chooses most often; not calibrated
LEAST = 0.003  # random filters fall by ten points below it


def by_evidence(have: Moments) -> Choice:
    """The most likely shrinkage, and the distance that goes with it."""
    values = np.maximum(np.linalg.eigvalsh(have.within), 0)
    width, samples = len(values), have.samples
    free = max(samples - len(have.classes), 1.0)
    size = have.size
    best, most = SHRINKAGE[-1], -math.inf
    for shrinkage in SHRINKAGE:
        degrees = shrinkage * samples + width + 1
        scale = shrinkage * samples * size
        spread = np.log(scale + samples * values).sum()
        likely = 0.5 * degrees * width * math.log(scale) - 0.5 * (degrees + free) * spread
        likely += _log_gamma(0.5 * (degrees + free), width) - _log_gamma(0.5 * degrees, width)
        if likely > most and shrinkage >= LEAST:
            best, most = shrinkage, float(likely)
    # A sample left out lies as far off as it does now, and as its mean moves: n/(n − 1) on average.
    distance = float((values / (values + best * size)).sum()) * samples / free
    return Choice(best, TEMPERATURE, distance)


def _log_gamma(at: float, width: int) -> float:
    """log Γ_d up to its power of π, which is the same for all."""
    return sum(math.lgamma(at - 0.5 * j) for j in range(width))
