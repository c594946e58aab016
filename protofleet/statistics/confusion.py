"""Which class is taken for which, of samples that were held out: whole numbers for people to look
at, which add up over devices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from protofleet.errors import FusionError
from protofleet.statistics.held_out import HeldOut
from protofleet.values.prototypes import Ints, Parts, Tensors

CONFUSION = "confusion"  # the part on the wire
MOST_CLASSES = 64  # a table of more is neither read nor sent


@dataclass(frozen=True, eq=False)
class Confusion:
    """Of which class ids, and how many of row i were taken for column j."""

    classes: Ints  # [K], rising
    pairs: Ints  # [K, K]


def confusion(out: HeldOut, classes: Ints) -> Confusion | None:
    """Of scores that the sums had not seen; none of more classes than anybody reads."""
    if not len(out.labels) or len(classes) > MOST_CLASSES:
        return None
    pairs = np.zeros((len(classes), len(classes)), np.int64)
    np.add.at(pairs, (out.labels, out.scores.argmax(1)), 1)
    return Confusion(np.asarray(classes, np.int64), pairs)


def together(one: Confusion | None, other: Confusion | None) -> Confusion | None:
    """Of both; who says nothing adds nothing."""
    if one is None or other is None:
        return other if one is None else one
    classes = np.union1d(one.classes, other.classes)
    pairs = np.zeros((len(classes), len(classes)), np.int64)
    for part in (one, other):
        places = np.searchsorted(classes, part.classes)
        pairs[np.ix_(places, places)] += part.pairs
    return Confusion(classes, pairs)


def parts_of(own: Confusion | None) -> Parts:
    """As it travels, beside the counts; older coordinators leave it."""
    if own is None:
        return {}
    return {CONFUSION: Tensors({"classes": own.classes, "pairs": own.pairs})}


def from_parts(parts: Parts, samples: int, *, whole: bool = True) -> Confusion | None:
    """From what came, checked: no device takes more for something than it held out. Of several
    devices some may have said nothing of it; then it is not of the `whole`.
    """
    part = parts.get(CONFUSION)
    if part is None:
        return None
    if not isinstance(part, Tensors) or part.arrays.keys() != {"classes", "pairs"}:
        raise FusionError("confusion: classes and pairs are due")
    classes, pairs = part["classes"], part["pairs"]
    number = len(classes) if classes.ndim == 1 else 0
    if not 0 < number <= MOST_CLASSES or pairs.shape != (number, number):
        raise FusionError(f"confusion: a square of at most {MOST_CLASSES} classes is due")
    if classes.dtype.kind != "i" or pairs.dtype.kind != "i":
        raise FusionError("confusion: whole numbers are due")
    if np.any(np.diff(classes) <= 0) or classes[0] < 0 or pairs.min() < 0:
        raise FusionError("confusion: rising class ids, and numbers from 0 on, are due")
    if pairs.max() > samples or pairs.sum() > samples or (whole and pairs.sum() != samples):
        raise FusionError("confusion: pairs of all samples are due")
    return Confusion(classes.astype(np.int64), pairs.astype(np.int64))
