"""A covariance out of sums with noise: directions that stand out of the noise as they were before
it, and all others alike.
"""

# Theory of operation
#
# P is the scatter of samples about a centre, plus noise W: a symmetric matrix of independent
# numbers of one σ. Whatever the data are, the eigenvalues of W fill a half circle of radius
# r = 2 σ √d (Wigner), which is public. So it is known what of P is noise:
#
#   an eigenvalue θ of P − W becomes y = θ + (r/2)²/θ where θ > r/2, and cannot be seen else
#   (Benaych-Georges and Nadakuditi 2011)
#
# and the other way round θ = (y + √(y² − r²))/2 for y > r. What is below r says nothing; these
# directions share what the trace, which is released by itself, leaves for them. In a fleet of
# 50,000 samples that keeps some thirty directions of 504 at ε = 8, the strongest: these are what a
# classifier has to suppress. None may be left, and then S is round, which is a classifier by the
# nearest mean.

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
EDGE = 1.05  # times the noise's radius: what a finite matrix's largest eigenvalue stays below
LEAST = 2.0**-20  # of a variance
RIDGE = 0.03  # of the usual variance, in all directions: as held-out samples choose without noise


def denoised(within: Matrix, noise: float, trace: float) -> Matrix:
    """A symmetric matrix whose numbers have this noise, as one that is positive and has this
    trace.
    """
    width = len(within)
    radius = 2 * noise * np.sqrt(width)
    values, vectors = np.linalg.eigh(within)
    clear = values > max(EDGE * radius, 0.0)
    strong = (values[clear] + np.sqrt(values[clear] ** 2 - radius**2)) / 2
    # Where noise put more into these than there is, they have all of it.
    strong *= min(1.0, trace / max(float(strong.sum()), 1e-300))
    rest = max(trace - float(strong.sum()), 0.0) / max(width - len(strong), 1)
    basis = vectors[:, clear]
    spread: Matrix = (basis * (strong - rest)) @ basis.T
    spread[np.diag_indices(width)] += max(rest, LEAST)
    return spread
