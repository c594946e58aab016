"""How well the total would classify a device's own samples had it never seen them, in closed
form; shrinkage and temperature are chosen by it.
"""

# Theory of operation
#
# A classifier cannot be tuned on samples that are in its own sums: at 1,280 features a covariance
# of a few hundred samples knows every one of them. Each device therefore scores its samples as if
# each had been left out, in closed form. With u = x − M_y and n = N_y, leaving x out makes
#
#   M_y' = (n M_y − x)/(n − 1)            N S' = N S − n/(n − 1) · u uᵀ
#
# and by Sherman and Morrison, in the space where S_ρ is the identity (a = n/((n − 1) N)):
#
#   (I − a u uᵀ)⁻¹ = I + q u uᵀ           q = a/(1 − a‖u‖²)
#
# so one eigenbasis a version and two dot products a sample and class do it for every ρ. A sample
# that is alone in its class cannot be left out and is not counted.
#
# What devices send of it are whole numbers: `counts` has them.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protofleet.statistics.closed_form import (
    PRIOR,
    SHRINKAGE,
    UNSURE,
    Whitened,
)
from protofleet.statistics.contribution import Contribution, scaled
from protofleet.values.prototypes import Ints

Matrix = NDArray[np.float64]

TEMPERATURES = tuple(2.0 ** (step / 2) for step in range(-4, 23))
STEP = 2.0**-16  # of log-loss and distance, so that they add up
CONFIDENCES, ODDITIES = 50, 400  # bins
WORST = 2.0**16  # of one sample's loss or distance: nobody's sum can run away
MOST = 4096  # samples of one device that are left out: more tell little, and cost


@dataclass(frozen=True)
class Choice:
    """What the fleet classifies by."""

    shrinkage: float
    temperature: float
    distance: float  # D̄ at that shrinkage


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Scores of samples of which each was left out (as `closed_form.head` would give them), whose
    class, and how far each lay from its own class.
    """

    scores: Matrix  # [n, K]
    labels: Ints  # positions among the K
    distances: Matrix  # [n]


@dataclass(frozen=True, eq=False)
class Samples:
    """A device's own features and class ids, and the directions that its contribution says of
    their scatter ([r, d], of length one and at right angles; None: all of them).
    """

    features: Matrix
    labels: Ints
    directions: Matrix | None = None

    @staticmethod
    def of(features: ArrayLike, labels: ArrayLike, own: Contribution | None = None) -> Samples:
        """As a device has them; with its contribution, as far as that tells."""
        x, y = np.asarray(features, np.float64), np.asarray(labels, np.int64)
        if own is None or len(own.rows) >= min(x.shape):
            return Samples(x, y)
        return Samples(x, y, np.linalg.qr(scaled(own.rows, own.exponents).T)[0].T)

    def at_most(self, number: int) -> Samples:
        """So many of them, evenly taken."""
        if len(self.labels) <= number:
            return self
        rows = np.linspace(0, len(self.labels) - 1, number).astype(np.int64)
        return Samples(self.features[rows], self.labels[rows], self.directions)


def left_out(of: Whitened, own: Samples, distance: float) -> LeftOut:
    """Every sample whose class has another one."""
    have = of.moments
    at = np.searchsorted(have.classes, own.labels)
    count = have.counts[at]
    keep = count > 1
    at, count, x = at[keep], count[keep], own.features[keep]
    z, means, plain = of.of(x), of.means, of.of(have.means)
    u = z - plain[at]
    if own.directions is not None:
        # Only what the contribution told of a sample can be taken out of S again.
        offset = x - have.means[at]
        u = (offset @ own.directions.T) @ (own.directions @ of.map)
    a = count / ((count - 1) * have.samples)
    q = a / np.maximum(1 - a * (u**2).sum(1), 1e-9)
    rest = (count[:, None] * plain[at] - z) / (count - 1)[:, None]
    belief = (count - 1) / (count - 1 + PRIOR)
    centre = belief[:, None] * rest
    # Of score = aᵀ S⁻¹ z − ½ aᵀ S⁻¹ a: both products under I + q u uᵀ.
    uz, um = (u * z).sum(1), u @ means.T
    scores = z @ means.T + q[:, None] * uz[:, None] * um
    scores -= 0.5 * ((means**2).sum(1) + q[:, None] * um**2)
    uo = (u * centre).sum(1)
    rows = np.arange(len(z))
    scores[rows, at] = (z * centre).sum(1) + q * uz * uo - 0.5 * ((centre**2).sum(1) + q * uo**2)
    credit = np.tile(of.credit(distance), (len(z), 1))
    credit[rows, at] = UNSURE * distance * belief**2 / (count - 1)
    far = ((z - centre) ** 2).sum(1) + q * (uz - uo) ** 2
    return LeftOut(scores + 0.5 * credit, at.astype(np.int64), far)


def choose(samples: int, distances: Ints, losses: Ints) -> Choice | None:
    """The shrinkage and temperature of least log-loss; None where no sample could be left out."""
    if not samples:
        return None
    row, column = np.unravel_index(int(losses.argmin()), losses.shape)
    distance = float(distances[row]) * STEP / samples
    return Choice(SHRINKAGE[int(row)], TEMPERATURES[int(column)], distance)


def log_loss(out: LeftOut, temperature: float) -> Matrix:
    """−log softmax of the own class, a number a sample."""
    scores = out.scores / temperature
    scores = scores - scores.max(1, keepdims=True)
    loss: Matrix = np.log(np.exp(scores).sum(1)) - scores[np.arange(len(scores)), out.labels]
    return loss


def steps(values: Sequence[float] | Matrix) -> int:
    """A sum in whole steps: each value is rounded by itself, so order does not matter."""
    return int(np.rint(np.minimum(np.asarray(values), WORST) / STEP).sum())
