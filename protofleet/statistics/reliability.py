"""How sure is sure, and what is unknown: from counts over samples that were held out."""

# Theory of operation
#
# Two histograms of held-out samples (`held_out`), added up over devices (`counts`), at the ρ
# and T that the fleet uses:
#
#   confidence   softmax(score / T) of the best class, in equal bins: how many, how many right
#   oddness      −(best score), in bins of asinh: how many
#
# Probability. Below ENOUGH samples softmax is taken as it is: temperature is one number and was
# chosen on the same samples. From there the share that is right in each bin, made monotone by
# pooling neighbours that are in the wrong order (Ayer et al. 1955), and read between the bins'
# middles. Measured on photographs: expected calibration error 0.018 to 0.013 (office-caltech),
# 0.025 to 0.015 (PACS). The map is the best class's; what it leaves, the others have in the shares
# that softmax gives them, none more than the best.
#
# Unknown. A sample is unknown where its oddness is above the threshold that the asked share of the
# fleet's own samples is above. The bins are fine enough that reading between them costs nothing.
# Scores are linear, so what lies far beyond a class, on its side of the middle, scores higher than
# the class itself: less odd than every sample that was held out, by BEYOND of their range, is
# unknown, too (noise and blank images are told by it).

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protofleet.errors import SettingError
from protofleet.statistics.held_out import CONFIDENCES, ODDITIES, HeldOut
from protofleet.values.prototypes import Ints

Matrix = NDArray[np.float64]

ENOUGH = 1000  # held-out samples from which the counts say more than a temperature
STRETCH = 0.05  # of a bin of asinh(oddness): from −22,000 to 22,000 in 400 of them
FALSE_ALARMS = 0.05
COLDEST = 2.0**-20  # a temperature: scores divided by one next to 0 are no numbers
BEYOND = 0.25  # of the range from the usual to the least odd sample


@dataclass(frozen=True, eq=False)
class Reliability:
    """A device's, or the fleet's."""

    total: Ints  # [CONFIDENCES]
    right: Ints  # [CONFIDENCES]
    odd: Ints  # [ODDITIES]

    @property
    def samples(self) -> int:
        """How many were held out."""
        return int(self.total.sum())

    def plus(self, other: Reliability) -> Reliability:
        """Of both."""
        return Reliability(self.total + other.total, self.right + other.right, self.odd + other.odd)


@dataclass(frozen=True)
class Calibration:
    """What a device needs to say how sure it is: knots of a monotone map (none: softmax as it is),
    and between which oddities things are known (None: nobody could be held out).
    """

    temperature: float
    confidences: tuple[float, ...] = ()
    probabilities: tuple[float, ...] = ()
    usual: tuple[float, float] | None = None
    samples: int = 0  # that were held out for it
    current: bool = False  # they were held out of the very total that the scores are made of
    shrinkage: float = 0.0  # ρ and D̄ of the head: what a device needs to add a class to it
    distance: float = 0.0

    def __post_init__(self) -> None:
        # It comes over the wire, and with bundles from elsewhere.
        knots = (self.confidences, self.probabilities)
        if not COLDEST <= self.temperature < math.inf or len(knots[0]) != len(knots[1]):
            raise SettingError("calibration: a temperature above 0 is due, and knots in pairs")
        if min(self.shrinkage, self.distance, self.samples) < 0:
            raise SettingError("calibration: shrinkage, distance and samples are not negative")
        if any(list(ends) != sorted(ends) or not _shares(ends) for ends in knots):
            raise SettingError("calibration: knots are shares in rising order")
        if self.usual is not None and (len(self.usual) != 2 or self.usual[0] > self.usual[1]):
            raise SettingError("calibration: usual is from a lower to a higher oddness")

    def probability(self, scores: ArrayLike) -> Matrix:
        """Of the best class of each row of scores."""
        best: Matrix = self.shares(scores).max(1)
        return best

    def shares(self, scores: ArrayLike) -> Matrix:
        """Of every class."""
        plain = softmax(np.asarray(scores, np.float64) / self.temperature)
        if not len(self.confidences):
            return plain
        rows, best = np.arange(len(plain)), plain.argmax(1)
        mapped: Matrix = np.interp(plain[rows, best], self.confidences, self.probabilities)
        plain[rows, best] = 0
        # The others' sum, and not one less the best: that cancels where the best is nearly one.
        rest = (1 - mapped) / np.maximum(plain.sum(1), 1e-300)
        mended: Matrix = np.minimum(plain * rest[:, None], mapped[:, None])
        mended[rows, best] = mapped
        return mended

    def unknown(self, scores: ArrayLike) -> NDArray[np.bool_]:
        """Whether a row of scores is like no class."""
        odd = -np.asarray(scores, np.float64).max(1)
        if self.usual is None:
            return np.zeros(len(odd), np.bool_)
        outside: NDArray[np.bool_] = (odd < self.usual[0]) | (odd > self.usual[1])
        return outside


def reliability(out: HeldOut, temperature: float) -> Reliability:
    """The two histograms of held-out samples."""
    if not len(out.scores):
        nothing = np.zeros(CONFIDENCES, np.int64)
        return Reliability(nothing, nothing, np.zeros(ODDITIES, np.int64))
    sure = softmax(out.scores / temperature)
    right = sure.argmax(1) == out.labels
    bins = np.minimum((sure.max(1) * CONFIDENCES).astype(np.int64), CONFIDENCES - 1)
    odd = np.floor(np.arcsinh(-out.scores.max(1)) / STRETCH).astype(np.int64) + ODDITIES // 2
    return Reliability(
        np.bincount(bins, minlength=CONFIDENCES),
        np.bincount(bins[right], minlength=CONFIDENCES),
        np.bincount(np.clip(odd, 0, ODDITIES - 1), minlength=ODDITIES),
    )


def calibration(
    of: Reliability, temperature: float, false_alarms: float = FALSE_ALARMS
) -> Calibration:
    """What comes of the counts."""
    if not of.samples:
        return Calibration(temperature)
    knots = _monotone(of) if of.samples >= ENOUGH else ((), ())
    usual = _usual(of.odd, false_alarms)
    return Calibration(temperature, *knots, usual, of.samples, current=True)


def softmax(scores: Matrix) -> Matrix:
    """Rows that add up to one."""
    raised = np.exp(scores - scores.max(1, keepdims=True))
    shares: Matrix = raised / raised.sum(1, keepdims=True)
    return shares


def _monotone(of: Reliability) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Middles of the bins that hold anything, and the share that is right, never falling."""
    at = np.flatnonzero(of.total)
    # [weight, right, middles of the bins in it]
    blocks: list[tuple[int, int, list[float]]] = []
    for i in at.tolist():
        block = (int(of.total[i]), int(of.right[i]), [float((i + 0.5) / CONFIDENCES)])
        while blocks and blocks[-1][1] * block[0] >= block[1] * blocks[-1][0]:
            before = blocks.pop()
            block = (before[0] + block[0], before[1] + block[1], before[2] + block[2])
        blocks.append(block)
    middles = tuple(middle for _, _, bins in blocks for middle in bins)
    shares = tuple(right / total for total, right, bins in blocks for _ in bins)
    return middles, shares


def _usual(odd: Ints, false_alarms: float) -> tuple[float, float]:
    """From what is less odd than anything was, to what that share is odder than."""
    upto = np.concatenate([[0], np.cumsum(odd)]) / odd.sum()
    edges = (np.arange(ODDITIES + 1) - ODDITIES // 2) * STRETCH
    # The first edge of those below which equally many lie is where they end; the last one below
    # which nothing lies is where all begin.
    keep = np.concatenate([[False], np.diff(upto) > 0])
    keep[np.flatnonzero(odd)[0]] = True
    middle, most = np.sinh(np.interp([0.5, 1 - false_alarms], upto[keep], edges[keep]))
    least = float(np.sinh(edges[np.flatnonzero(odd)[0]]))
    return _plain(least - BEYOND * (float(middle) - least)), _plain(float(most))


def _shares(values: tuple[float, ...]) -> bool:
    return all(0 <= value <= 1 for value in values)


def _plain(value: float) -> float:
    """To six digits: the same in every language that reads it, and after any other arithmetic."""
    return float(f"{value:.6g}")
