"""When a fleet exchanges: rounds that talk and rounds of local training only."""

from __future__ import annotations


def from_then_every(start: int, interval: int, round: int) -> bool:
    """Round `start`, and every `interval` rounds from there."""
    # GFPL's algorithm 2 has t ≥ t1 and t mod S_T = 0, which is the same for its t1 = S_T = 10.
    # Counted from `start`, the first exchange is in that round whatever the interval is.
    return round >= start and (round - start) % interval == 0
