"""What several seeds say together: means with their 95 % intervals, and paired differences.

All intervals are Student's t: mean ± t(0.975, n − 1) · s / √n. One value has no spread, and so no
end: its interval is everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt
from statistics import fmean, stdev

from scipy.stats import t as student


@dataclass(frozen=True)
class Interval:
    """A mean over seeds, and how far its 95 % interval reaches to either side."""

    mean: float
    half: float
    seeds: int


@dataclass(frozen=True)
class Difference:
    """The mean of paired differences, its 95 % interval, and the p of no difference at all."""

    mean: float
    low: float
    high: float
    pairs: int
    p: float = 1.0

    @property
    def above(self) -> bool:
        """Whether the whole interval is."""
        return self.pairs > 1 and self.low > 0


def interval(values: Sequence[float]) -> Interval:
    """Of one number, measured with so many seeds."""
    return Interval(fmean(values), _half(values), len(values))


def difference(ours: Sequence[float], theirs: Sequence[float]) -> Difference:
    """Of equally long sequences, pair by pair."""
    # Of the differences, not of the accuracies: the same seed deals the same devices to both, and
    # how hard these are drops out of a difference.
    gaps = [a - b for a, b in zip(ours, theirs, strict=True)]
    mean, half = fmean(gaps), _half(gaps)
    if len(gaps) < 2:
        return Difference(mean, -inf, inf, len(gaps))
    error = stdev(gaps) / sqrt(len(gaps))
    # All differences the same: none of them by chance, unless they are no differences.
    p = 2 * float(student.sf(abs(mean) / error, len(gaps) - 1)) if error else float(mean == 0)
    return Difference(mean, mean - half, mean + half, len(gaps), p)


def _half(values: Sequence[float]) -> float:
    if len(values) < 2:
        return inf
    return float(student.ppf(0.975, len(values) - 1)) * stdev(values) / sqrt(len(values))
