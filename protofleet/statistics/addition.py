"""A class more beside a head that a fleet made: the row it would have had, before the fleet has
it.
"""

# Theory of operation
#
# A device that is shown five photos wants to answer them at once, also where nobody is connected.
# It has the fleet's head, how it was made (ρ and D̄, in its calibration) and, once it fetched it,
# the total that heads are made of. The new class's row and bias are those of `closed_form` at its
# own n and mean, with the fleet's m₀ and δ². The other rows stay as they are, to the bit: what five
# photos change in S and m₀ is the fleet's to work in, and how sure the fleet is of its scores was
# measured on these rows.
#
# The total may be older than the head by what came since; of a class of five that is little.

from __future__ import annotations

import numpy as np

from protofleet.errors import FusionError, ValueRefused
from protofleet.statistics.closed_form import Belief, Moments
from protofleet.statistics.contribution import Contribution
from protofleet.statistics.reliability import Calibration
from protofleet.values.prototypes import Head


def with_class(head: Head, sure: Calibration, of: Moments, own: Contribution, label: int) -> Head:
    """The head, and a row for a contribution's one class, under an id of its own."""
    if len(own.means.classes) != 1 or label in head.classes.tolist():
        raise FusionError("one class is due, and an id that the head lacks")
    if not sure.shrinkage or {head.weight.shape[1], own.means.dim} != {of.means.shape[1]}:
        raise FusionError("a head that was made of this total is due")
    try:
        return _with_row(head, sure, of, own, label)
    except (np.linalg.LinAlgError, ValueRefused):  # the total came from elsewhere
        raise FusionError("a total whose scatter is one of samples is due") from None


def _with_row(head: Head, sure: Calibration, of: Moments, own: Contribution, label: int) -> Head:
    means = np.concatenate([of.means, own.means.vectors.astype(np.float64)]) - of.centre
    rows = np.linalg.solve(of.shrunk(sure.shrinkage), means.T).T
    # The fleet's classes are there for δ² alone, which is of those of usual size.
    counts = np.append(of.counts, float(own.samples))
    apart = (rows * means).sum(1)
    belief = Belief.of(counts, apart, sure.distance)
    share, credit = float(belief.shares[-1]), float(belief.credit[-1])
    row = share * rows[-1]
    bias = 0.5 * (credit - share**2 * float(apart[-1])) - row @ of.centre
    classes = np.append(head.classes, label)
    order = np.argsort(classes, kind="stable")
    weight = np.concatenate([head.weight, row[None].astype(np.float32)])
    biases = np.append(head.bias, np.float32(bias))
    return Head(classes[order], weight[order], biases[order])
