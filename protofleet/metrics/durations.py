"""How long something took, each time: counted by edges, so that any number of times takes the same
room.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

# Seconds. From a fusion of means (milliseconds) to a round of training (minutes).
EDGES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)


@dataclass(frozen=True)
class Durations:
    """Counts between the edges, one beyond the last, and the sum of all."""

    counts: tuple[int, ...] = (0,) * (len(EDGES) + 1)
    total: float = 0.0

    def plus(self, seconds: float) -> Durations:
        """One more."""
        at = bisect_left(EDGES, seconds)
        counts = (*self.counts[:at], self.counts[at] + 1, *self.counts[at + 1 :])
        return replace(self, counts=counts, total=self.total + seconds)

    @property
    def document(self) -> dict[str, Any]:
        """As a status says it."""
        return {"edges": list(EDGES), "counts": list(self.counts), "sum": self.total}


def of_document(
    document: Mapping[str, Any] | None,
) -> tuple[Sequence[float], Sequence[int], float] | None:
    """Edges, counts and sum of what `Durations.document` said; None where nothing did."""
    if not document:
        return None
    return document["edges"], document["counts"], float(document["sum"])
