"""What a fleet knows once it is added up: one head that every device can run, how sure it is, and
where unknown begins.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protofleet.statistics.closed_form import Moments, head
from protofleet.statistics.counts import Counts
from protofleet.statistics.evidence import by_evidence
from protofleet.statistics.held_out import Choice
from protofleet.statistics.reliability import FALSE_ALARMS, Calibration, calibration
from protofleet.values.prototypes import Floats, Head, Ints


@dataclass(frozen=True, eq=False)
class Knowledge:
    """What devices classify with."""

    head: Head
    choice: Choice
    calibration: Calibration

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


def knowledge(
    of: Moments,
    counts: Counts | None = None,
    *,
    current: bool = True,
    false_alarms: float = FALSE_ALARMS,
) -> Knowledge:
    """From the sums and what devices counted; `current` if that was against these very sums.

    Without counts shrinkage goes by the evidence, and nothing is called unknown.
    """
    choice = None if counts is None else counts.choice
    if counts is None or choice is None:
        choice = by_evidence(of)
        sure = Calibration(choice.temperature)
    else:
        sure = calibration(counts.at(choice), choice.temperature, false_alarms)
        sure = replace(sure, current=current)
    rows = head(of, choice.shrinkage, choice.distance)
    sure = replace(sure, shrinkage=choice.shrinkage, distance=choice.distance)
    return Knowledge(rows, choice, sure)
