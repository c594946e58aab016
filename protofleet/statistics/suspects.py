"""A class of a device that looks like another one everywhere else: a wrong label, most often."""

# Theory of operation
#
# A device's class means μ are compared with the means M of everybody else, that is of the total
# without it. Two things would be in the way of comparing each with its own:
#
#   Every camera has an offset of its own (light, lens, background), larger than what tells some
#   classes apart. Its mean offset over all its classes is taken off first. Labels that were
#   swapped among its classes do not change that mean.
#   Some classes lie near each other for everybody. So each mean is not asked which class is
#   nearest: all of the device's means are matched with different classes at once, at the least
#   sum of squared distances (in the space where S_ρ is the identity).
#
# A class is suspect if the match gives it another one. Measured on PACS (28 pairs of device and
# class): nearest class with offset, 3 false and 95 % of swapped classes named; matched, 0 false and
# all named; on office-caltech 0 of 40 false and all named by either.

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from protofleet.statistics.closed_form import Whitened
from protofleet.statistics.contribution import Contribution

LEAST = 2  # samples below which a mean says nothing of its label


@dataclass(frozen=True)
class Suspect:
    """A class of a device, and the one that it looks like at everybody else's."""

    label: int
    looks_like: int
    nearer: float  # its distance to that one, as a share of that to its own


def suspects(own: Contribution, others: Whitened) -> list[Suspect]:
    """Classes that look like another; `others` is the total without this device."""
    from scipy.optimize import linear_sum_assignment  # comes with what coordinators have

    classes = others.moments.classes
    keep = np.isin(own.means.classes, classes) & (np.asarray(own.means.counts) >= LEAST)
    labels = own.means.classes[keep]
    if len(labels) < 2:
        return []  # one class alone cannot be told from its camera's offset
    theirs, at = others.of(others.moments.means), np.searchsorted(classes, labels)
    rows = others.of(own.means.vectors[keep])
    rows = rows - (rows - theirs[at]).mean(0)
    far = (rows**2).sum(1)[:, None] - 2 * rows @ theirs.T + (theirs**2).sum(1)
    _, match = linear_sum_assignment(far)
    own_far = np.maximum(far[np.arange(len(at)), at], 1e-12)
    return [
        Suspect(int(labels[i]), int(classes[j]), float(np.sqrt(max(far[i, j], 0) / own_far[i])))
        for i, j in enumerate(match)
        if j != at[i]
    ]
