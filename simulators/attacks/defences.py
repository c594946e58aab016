"""What a device may hold back before it speaks, as parameters: how many samples a class needs, how
many must have changed, and who sees its covariance.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from protofleet.statistics.contribution import (
    MEANS,
    RANK,
    SCATTER,
    Contribution,
    Grid,
    Matrix,
    contribution,
    fold,
    square,
)
from protofleet.values.prototypes import Floats, Ints
from protofleet.values.sums import Sum, merge_all

Covariance = Literal["open", "masked", "off"]


@dataclass(frozen=True)
class Defences:
    """None by default."""

    minimum: int = 1  # a class of fewer samples is not spoken of
    changed: int = 1  # a class is said again when so many of its samples changed
    covariance: Covariance = "open"  # masked: seen only in the sum over a group; off: by nobody


OPEN = Defences()
HELD_BACK = Defences(minimum=5, changed=5)


def spoken(features: Floats, labels: Ints, grid: Grid, defences: Defences) -> Contribution | None:
    """What is seen of a device with these samples; None where it has nothing to say."""
    classes, counts = np.unique(labels, return_counts=True)
    enough = np.isin(labels, classes[counts >= defences.minimum])
    if not enough.any():
        return None
    rank = RANK if defences.covariance == "open" else 0
    own = contribution(features[enough], labels[enough], grid, rank)
    if rank:
        return own
    # Without rows the residual would be the whole diagonal.
    return replace(own, residual=np.zeros_like(own.residual))


def group_total(contributions: Iterable[Contribution], grid: Grid) -> tuple[Matrix, int]:
    """What is seen of a masked group: the scatter about zero of all its samples, and how many."""
    total = merge_all(fold(own, grid) for own in contributions)
    means, entries = total[MEANS], total[SCATTER]
    assert isinstance(means, Sum)
    assert isinstance(entries, Sum)
    whole = square(entries.total()[0], means.low.shape[1])
    return whole, int(entries.weights[0])
