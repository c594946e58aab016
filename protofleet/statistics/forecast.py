"""Have I done enough? How often each class of a device's own samples is right when it is left out,
and what ten more of it would bring.
"""

# Theory of operation
#
# `held_out` classifies a device's samples by sums without them, in parts. The same is done once
# more with a half and with a quarter of what the device says in each fold's sums: three points of a
# learning curve, on the very same samples.
#
# Of one class there are some dozens of samples at best, and from one to three of them wrong: no
# curve can be laid through that. So the shape is everybody's and the height the class's own:
#
#   error_c(n) = e_c · (n / n_c)^−β
#
#   n_c    the fleet's samples of the class, with all of this device's
#   β      one number for all classes: the slope of log error over log n in the three points, all
#          samples together, drawn towards SLOPE as if there had been PRIOR wrong answers more
#   e_c    wrong answers of the class among those left out, drawn towards the share of all classes
#          by PRIOR samples, and taken from the folds' n to n_c by the same curve
#
# and ten more give e_c · (1 − ((n_c + 10)/n_c)^−β). A power law has no floor, and real classes have
# one (two things that look the same): the forecast is rather too good where hardly anything is
# wrong any more, by less than what is wrong. How far off it is, and how far off "nothing changes"
# would have been: docs/label.md, measured by `tools/forecast_error.py`.
#
# Only the device's own samples can be left out, so what it says is of its own pictures: the fleet's
# accuracy on what this camera sees.

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from protofleet.statistics.closed_form import Moments
from protofleet.statistics.held_out import Samples, folds, held_out, scored

Matrix = NDArray[np.float64]

SHARES = (1.0, 0.5, 0.25)  # of the device's samples that stay in a fold's sums
MORE = 10
PRIOR, SLOPE = 4.0, 0.3


@dataclass(frozen=True)
class ClassForecast:
    """Of one class."""

    label: int  # its id
    samples: int  # of the fleet
    tested: int  # the device's own that were left out
    right: int  # of these
    accuracy: float  # what is likely, with all samples there are
    gain: float  # by MORE of it


def forecast(of: Moments, own: Samples, shrinkage: float) -> list[ClassForecast]:
    """Of each class that the device has samples of; `of` has them all."""
    wrong, tested, there = _curve(of, own, shrinkage)
    labels = np.flatnonzero(tested)
    if not len(labels):
        return []
    slope = _slope(wrong, tested, there)
    # Half a wrong answer more: of few that are all right nobody knows that none will be wrong.
    errors = wrong[0] + PRIOR * (wrong[0].sum() + 0.5) / (tested.sum() + 1)
    errors = errors[labels] / (tested[labels] + PRIOR)
    counts = of.counts[labels]
    now = errors * (counts / np.maximum(there[0][labels], 1.0)) ** -slope
    gain = now * (1.0 - ((counts + MORE) / counts) ** -slope)
    return [
        ClassForecast(
            int(of.classes[label]),
            round(float(of.counts[label])),
            int(tested[label]),
            int(tested[label] - wrong[0][label]),
            float(1.0 - now[at]),
            float(gain[at]),
        )
        for at, label in enumerate(labels.tolist())
    ]


def _curve(of: Moments, own: Samples, shrinkage: float) -> tuple[Matrix, Matrix, Matrix]:
    """Wrong answers at each share and class; how many of each class were left out; and how many of
    it the sums had at each share, on average.
    """
    count = len(of.classes)
    wrong, there = np.zeros((2, len(SHARES), count))
    tested = np.zeros(count)
    for row, share in enumerate(SHARES):
        right, parts = np.zeros(count), 0
        for part in folds(of, own, share):
            out = held_out([scored(part, of.classes, shrinkage)], of.classes)
            right += np.bincount(out.labels[out.scores.argmax(1) == out.labels], minlength=count)
            there[row, np.searchsorted(of.classes, part.moments.classes)] += part.moments.counts
            parts += 1
            if not row:
                tested += np.bincount(out.labels, minlength=count)
        # Of a class that the thinned sums have no sample of none is right.
        wrong[row] = tested - right
        there[row] /= max(parts, 1)
    return wrong, tested, there


def _slope(wrong: Matrix, tested: Matrix, there: Matrix) -> float:
    """β of the theory: minus the slope of log error over log n."""
    share = tested / tested.sum()
    size = np.exp((share * np.log(np.maximum(there, 0.5))).sum(1))
    errors = (wrong.sum(1) + 0.5) / (tested.sum() + 1)
    x, y = np.log(size / size[0]), np.log(errors / errors[0])
    spread = float((x**2).sum())
    own = -float((x * y).sum()) / spread if spread > 1e-9 else SLOPE
    weight = float(wrong[0].sum())
    return min(max((weight * own + PRIOR * SLOPE) / (weight + PRIOR), 0.0), 1.0)
