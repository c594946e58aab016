"""A device's own classes as the prior of the fleet's classifier: what it labelled often is likely
there. The laboratory's `fleet` and devices in the field take it from here.
"""

# Theory of operation
#
# Bayes: the score of a class is its log-likelihood; with n_c samples of it on this device
#
#   score'_c = score_c / min(T, MOST_TEMPER) + log (n_c + κ) / Σ (n + κ)
#
# and softmax(score') is the probability. Dividing by T > 1 makes up for dimensions that are not
# independent, as the model has them, and would drown any prior. At a larger T than MOST_TEMPER the
# prior would decide nearly alone, and a device is shown things of other classes than its own, too:
# MNIST, Dir(0.05), everyone's test samples, 94.3 % at T = 4, 96.6 at 2. κ > 0 keeps log finite for
# a class that the device never labelled, which it may meet all the same.
#
# What is unknown is told by the scores without a prior: a class that is rare here is none the less
# known. The calibration's map from confidence to probability is of scores without one, too, so it
# is left out.
#
# Counts never leave the device: they would tell which classes those are.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protofleet.errors import SettingError
from protofleet.values.prototypes import Head

Matrix = NDArray[np.float64]

MOST_TEMPER = 2.0
SMOOTH = 2.0  # κ


@dataclass(frozen=True)
class OwnPrior:
    """What a device labelled, by class name."""

    counts: Mapping[str, int]
    smooth: float = SMOOTH

    def __post_init__(self) -> None:
        if not self.smooth > 0 or any(count < 0 for count in self.counts.values()):
            raise SettingError("a prior: counts from 0 up are due, and more than 0 to add")

    def applied(self, scores: ArrayLike, labels: Sequence[str], temperature: float) -> Matrix:
        """Scores of these classes; as they are where the device labelled none of them."""
        plain: Matrix = np.asarray(scores, np.float64)
        counts = [self.counts.get(label, 0) for label in labels]
        if not any(counts):
            return plain
        tempered: Matrix = plain / tempered_by(temperature) + log_prior(counts, self.smooth)
        return tempered


def tempered_by(temperature: float) -> float:
    """By what scores are divided beside a prior."""
    return min(temperature, MOST_TEMPER)


def log_prior(counts: ArrayLike, smooth: float) -> Matrix:
    """Of classes with so many samples each."""
    shares = np.asarray(counts, np.float64) + smooth
    logs: Matrix = np.log(shares / shares.sum())
    return logs


def with_prior(head: Head, counts: ArrayLike, temper: float, smooth: float) -> Head:
    """The same as rows and biases: less sure by `temper`, and classes as likely beforehand as these
    counts and `smooth` more of each say.
    """
    own = np.asarray(counts, np.float64)[head.classes]
    return Head(
        head.classes,
        head.weight / np.float32(temper),
        (head.bias / temper + log_prior(own, smooth)).astype(np.float32),
    )
