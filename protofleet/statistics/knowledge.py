"""What a fleet knows once it is added up: one head that every device can run, how sure it is, and
where unknown begins.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protofleet.statistics.closed_form import Basis, basis, head, moments
from protofleet.statistics.evidence import by_evidence
from protofleet.statistics.leave_one_out import Choice, Losses, Samples, choose, left_out
from protofleet.statistics.reliability import (
    FALSE_ALARMS,
    Calibration,
    Reliability,
    calibration,
    reliability,
)
from protofleet.values.prototypes import Floats, Head, Ints
from protofleet.values.sums import Partial


@dataclass(frozen=True, eq=False)
class Knowledge:
    """What devices classify with."""

    head: Head
    choice: Choice
    calibration: Calibration
    calibrated: bool  # by counts that were made against this very total

    def scores(self, features: ArrayLike) -> Floats:
        """A score for each class of the head."""
        scores: Floats = np.asarray(features, np.float32) @ self.head.weight.T + self.head.bias
        return scores

    def labels(self, features: ArrayLike) -> Ints:
        """The best class of each row."""
        best: Ints = self.head.classes[self.scores(features).argmax(1)]
        return best

    def unknown(self, features: ArrayLike) -> NDArray[np.bool_]:
        """Which rows are like no class."""
        return self.calibration.unknown(self.scores(features))


def stands(total: Partial) -> Basis | None:
    """The total in its eigenbasis; None while nobody contributed."""
    whole = moments(total)
    return None if whole is None else basis(whole)


def by_total(of: Basis, choice: Choice | None = None) -> Knowledge:
    """From the sums alone, at an earlier choice or by evidence."""
    chosen = choice or by_evidence(of)
    none = calibration(_nothing(of, chosen), chosen.temperature)
    return Knowledge(head(of.whitened(chosen.shrinkage), chosen.distance), chosen, none, False)


def by_counts(
    of: Basis, choice: Choice, counts: Reliability, false_alarms: float = FALSE_ALARMS
) -> Knowledge:
    """At the choice of the devices' left-out samples, with what they say of how sure it is."""
    rows = head(of.whitened(choice.shrinkage), choice.distance)
    return Knowledge(rows, choice, calibration(counts, choice.temperature, false_alarms), True)


def chosen_by(of: Basis, losses: Iterable[Losses]) -> Choice:
    """What the devices' losses say together; by evidence where no sample could be left out."""
    total: Losses | None = None
    for own in losses:
        total = own if total is None else total.plus(own)
    return (None if total is None else choose(total)) or by_evidence(of)


def counts_of(of: Basis, choice: Choice, own: Samples) -> Reliability:
    """A device's, at the fleet's choice."""
    white = of.whitened(choice.shrinkage)
    return reliability(left_out(white, own, choice.distance), choice.temperature)


def _nothing(of: Basis, choice: Choice) -> Reliability:
    width = len(of.values)
    return counts_of(of, choice, Samples(np.zeros((0, width)), np.zeros(0, np.int64)))
