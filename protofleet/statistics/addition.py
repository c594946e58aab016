"""A class more beside a head that a fleet made: the row it would have had, before the fleet has
it.
"""

# Theory of operation
#
# A device that is shown five photos wants to answer them at once, also where nobody is connected.
# It has the fleet's head (rows w_c and biases b_c) and, once it fetched it, the total that heads
# are made of (`closed_form` has the formulas): counts N_c, means M_c, S, and so m₀. What neither
# says is which ρ and D̄ the fleet chose; but the rows tell. With a_c = g_c (M_c − m₀)
#
#   (S + ρ σ² I) w_c = a_c            so ρ is where a − S w and σ² w agree best (least squares)
#   b_c = ½ (UNSURE · D̄ · g_c² / N_c − w_cᵀ a_c) − w_cᵀ m₀       so each class tells D̄; the median
#
# The new class's row and bias are then those same formulas at its own n and mean. The other rows
# stay as they are, to the bit: what five photos change in S and m₀ is the fleet's to work in, and
# how sure the fleet is of its scores was measured on these rows.
#
# The total may be older than the head by what came since; ρ lies on a coarse grid, and what is
# solved for is rounded to it.

from __future__ import annotations

import numpy as np

from protofleet.errors import FusionError
from protofleet.statistics.closed_form import PRIOR, SHRINKAGE, UNSURE, Matrix, Moments
from protofleet.statistics.contribution import Contribution
from protofleet.statistics.held_out import Choice
from protofleet.values.prototypes import Head


def chosen(head: Head, of: Moments) -> Choice:
    """The shrinkage and the distance that a head was made with; ids are the same in both."""
    common = np.intersect1d(head.classes, of.classes)
    if not len(common) or head.weight.shape[1] != of.means.shape[1]:
        raise FusionError("the head and the total have no class in common")
    at, rows = np.searchsorted(of.classes, common), np.searchsorted(head.classes, common)
    weight, counts = head.weight[rows].astype(np.float64), of.counts[at]
    belief = counts / (counts + PRIOR)
    offset = belief[:, None] * (of.means[at] - of.centre)
    scaled = of.size * weight
    ratio = float(((offset - weight @ of.within) * scaled).sum() / max((scaled**2).sum(), 1e-30))
    nearest = np.abs(np.log(SHRINKAGE) - np.log(max(ratio, 1e-9))).argmin()
    credit = 2 * (head.bias[rows] + weight @ of.centre) + (weight * offset).sum(1)
    distance = float(np.median(credit * counts / (UNSURE * belief**2)))
    return Choice(SHRINKAGE[int(nearest)], 1.0, max(distance, 0.0))


def with_class(head: Head, of: Moments, own: Contribution, label: int) -> Head:
    """The head, and a row for a contribution's one class, under an id of its own."""
    if len(own.means.classes) != 1 or label in head.classes.tolist():
        raise FusionError("one class is due, and an id that the head lacks")
    choice, samples = chosen(head, of), float(own.samples)
    belief = samples / (samples + PRIOR)
    offset: Matrix = belief * (own.means.vectors[0].astype(np.float64) - of.centre)
    row = np.linalg.solve(of.shrunk(choice.shrinkage), offset)
    credit = UNSURE * choice.distance * belief**2 / samples
    bias = 0.5 * (credit - row @ offset) - row @ of.centre
    classes = np.append(head.classes, label)
    order = np.argsort(classes, kind="stable")
    weight = np.concatenate([head.weight, row[None].astype(np.float32)])
    biases = np.append(head.bias, np.float32(bias))
    return Head(classes[order], weight[order], biases[order])
