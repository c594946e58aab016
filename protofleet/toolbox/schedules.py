"""When a fleet exchanges: rounds that talk and rounds of local training only."""

from __future__ import annotations


def from_then_every(start: int, interval: int, round: int) -> bool:
    """Round `start`, and every `interval` rounds from there."""
    return round >= start and (round - start) % interval == 0
