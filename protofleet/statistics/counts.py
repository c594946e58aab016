"""What a device tells of its held-out samples, in one message: whole numbers that add up over
devices, and from which the fleet chooses how it classifies and says how sure it is.
"""

# Theory of operation
#
# `held_out` scores a device's samples as if the total had never seen them. What comes of
# that at each ρ of the grid, and at each T, is counted:
#
#   samples                 how many could be held out
#   distances   [ρ]         their distances to the own class, added up           -> D̄
#   losses      [ρ, T]      their log-losses, added up                           -> ρ and T
#   sure, right [ρ, T, B]   confidence of the best class, in B equal bins: all, and those right
#   odd         [ρ, O]      how odd the best score is, in bins of asinh          -> unknown
#
# Beside them, for people alone: which class was taken for which, at the ρ that a device's own
# losses choose (`confusion`). Nothing is chosen by it, and no sum under masks has it.
#
# All of the grid, and not only what the fleet will choose: the choice is made of everybody's
# losses, and asking again for the histograms at that choice would be a second exchange.
#
# Distances and losses are in steps of 2⁻¹⁶, rounded sample by sample, so that sums are of integers:
# any order, any tree of merges, and they can be taken away. Counts are of one total, and carry its
# hash; those of two totals are never added.
#
# One device's counts are bounded: at most MOST samples are held out, each with a loss and distance
# that are capped, and a histogram that does not add up to its samples is refused. So a device that
# makes them up weighs as much as that many samples, and no more.

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from protofleet.errors import FusionError
from protofleet.masking.rooms import GRID_BITS, Room, Rooms
from protofleet.statistics.closed_form import SHRINKAGE, Moments
from protofleet.statistics.confusion import Confusion, confusion, together
from protofleet.statistics.held_out import (
    CONFIDENCES,
    MOST,
    ODDITIES,
    TEMPERATURES,
    WORST,
    Choice,
    Samples,
    choose,
    folds,
    held_out,
    log_loss,
    scored,
    steps,
)
from protofleet.statistics.reliability import Reliability, reliability
from protofleet.values.prototypes import Ints, Parts, Tensors
from protofleet.values.sums import Partial, Sum

COUNTS = "counts"  # the part on the wire
_GRID = 2.0**-40  # of `values.sums`: whole numbers below 2⁶³ are added there as they are
_SHAPES = {
    "samples": (),
    "distances": (len(SHRINKAGE),),
    "losses": (len(SHRINKAGE), len(TEMPERATURES)),
    "sure": (len(SHRINKAGE), len(TEMPERATURES), CONFIDENCES),
    "right": (len(SHRINKAGE), len(TEMPERATURES), CONFIDENCES),
    "odd": (len(SHRINKAGE), ODDITIES),
}


@dataclass(frozen=True, eq=False)
class Counts:
    """A device's, or the fleet's, against one total."""

    samples: int
    distances: Ints
    losses: Ints
    sure: Ints
    right: Ints
    odd: Ints
    confused: Confusion | None = None

    def plus(self, other: Counts) -> Counts:
        """Of both."""
        return Counts(
            self.samples + other.samples,
            self.distances + other.distances,
            self.losses + other.losses,
            self.sure + other.sure,
            self.right + other.right,
            self.odd + other.odd,
            together(self.confused, other.confused),
        )

    @property
    def choice(self) -> Choice | None:
        """The shrinkage and temperature of least log-loss; None where nothing was left out."""
        return choose(self.samples, self.distances, self.losses)

    def at(self, choice: Choice) -> Reliability:
        """How sure and how odd, at one shrinkage and temperature of the grid."""
        row = SHRINKAGE.index(choice.shrinkage)
        column = TEMPERATURES.index(choice.temperature)
        return Reliability(self.sure[row, column], self.right[row, column], self.odd[row])


def count(of: Moments, own: Samples) -> Counts:
    """A device's own samples, held out fold by fold, over the whole grid."""
    # Fold by fold, as each has a matrix of its own; what is left of it is a few numbers a sample.
    folded = []
    for part in folds(of, own):
        folded.append([scored(part, of.classes, shrinkage) for shrinkage in SHRINKAGE])
        del part
    distances, table, sure, right, odd, pairs = [], [], [], [], [], []
    for column in range(len(SHRINKAGE)):
        out = held_out([row[column] for row in folded], of.classes)
        distances.append(steps(out.distances))
        table.append([steps(log_loss(out, temperature)) for temperature in TEMPERATURES])
        histograms = [reliability(out, temperature) for temperature in TEMPERATURES]
        sure.append([histogram.total for histogram in histograms])
        right.append([histogram.right for histogram in histograms])
        odd.append(histograms[0].odd)  # scores do not depend on the temperature
        pairs.append(confusion(out, of.classes))
    columns = {
        "distances": distances,
        "losses": table,
        "sure": sure,
        "right": right,
        "odd": odd,
    }
    arrays = {name: np.array(numbers, np.int64) for name, numbers in columns.items()}
    counts = _of_arrays(sum(len(row[0].labels) for row in folded), arrays)
    choice = counts.choice
    if choice is None:
        return counts
    return replace(counts, confused=pairs[SHRINKAGE.index(choice.shrinkage)])


def parts_of(counts: Counts) -> Parts:
    """As they travel."""
    arrays = {name: getattr(counts, name) for name in _SHAPES}
    return {COUNTS: Tensors({name: np.asarray(array, np.int64) for name, array in arrays.items()})}


def from_parts(parts: Parts, devices: int = 1) -> Counts:
    """From what came, checked; of so many devices together."""
    part = parts.get(COUNTS)
    if not isinstance(part, Tensors) or part.arrays.keys() != _SHAPES.keys():
        raise FusionError(f"counts: {', '.join(_SHAPES)} are due")
    for name, shape in _SHAPES.items():
        array = part[name]
        if array.shape != shape or array.dtype.kind != "i" or (array.size and array.min() < 0):
            raise FusionError(f"counts.{name}: whole numbers of shape {shape} are due")
    arrays: dict[str, Ints] = {name: np.asarray(part[name], np.int64) for name in _SHAPES}
    samples = int(arrays.pop("samples"))
    counts = _of_arrays(samples, arrays)
    worst = int(WORST * 2**16) * samples
    most = MOST * devices
    if samples > most or max(_peak(counts.losses), _peak(counts.distances)) > worst:
        raise FusionError(f"counts: at most {most} samples, each of a bounded loss, are due")
    # No bin above the samples, too: sums of larger ones may come round to them in 64 bits.
    if max(_peak(counts.sure), _peak(counts.odd)) > samples:
        raise FusionError("counts: histograms of all samples are due")
    if np.any(counts.sure.sum(-1) != samples) or np.any(counts.odd.sum(-1) != samples):
        raise FusionError("counts: histograms of all samples are due")
    if np.any(counts.right > counts.sure):
        raise FusionError("counts: more are right than there are")
    return counts


def fold(counts: Counts) -> Partial:
    """As a sum like any other: every number times the grid's step, so that none is rounded."""
    return {
        f"{COUNTS}/{name}": Sum.of([0], np.asarray(getattr(counts, name))[None] * _GRID, 1)
        for name in _SHAPES
    }


def rooms() -> Rooms:
    """What a total may hold: no device counts more than MOST samples, none of them worse than
    WORST.
    """
    worst = {"distances": WORST * 2**16, "losses": WORST * 2**16}
    return {
        f"{COUNTS}/{name}": Room(1, GRID_BITS, MOST * worst.get(name, 1) * _GRID, 1, shape)
        for name, shape in _SHAPES.items()
    }


def total(sums: Partial) -> Counts | None:
    """And back; None where nobody counted."""
    arrays: dict[str, NDArray[np.int64]] = {}
    for name in _SHAPES:
        part = sums.get(f"{COUNTS}/{name}")
        if not isinstance(part, Sum) or not part.weights.any():
            return None
        arrays[name] = np.rint(part.total()[0] / _GRID).astype(np.int64)
    return _of_arrays(int(arrays.pop("samples")), arrays)


def _of_arrays(samples: int, of: Mapping[str, Ints]) -> Counts:
    return Counts(samples, of["distances"], of["losses"], of["sure"], of["right"], of["odd"])


def _peak(array: Ints) -> int:
    return int(array.max(initial=0))
