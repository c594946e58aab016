"""What a device's protocol is told once: its name, and how patient it is."""

from __future__ import annotations

from dataclasses import dataclass

DOUBLINGS = 20  # at most: beyond them every wait is the longest one, and floats stay finite


@dataclass(frozen=True)
class RetryRules:
    """What a device is told about itself."""

    agent: str
    evaluate: bool = True
    # Seconds to the second delivery of an upload without receipt; then twice as long each time.
    first_wait: float = 5.0
    longest_wait: float = 300.0
    tries: int = 3  # trainings of one round before it is given up
    # This device's own factor on waiting times, so that a fleet does not knock all at once when
    # its coordinator comes back.
    spread: float = 1.0

    def wait(self, attempt: int) -> float:
        """Seconds until the next attempt."""
        doubled = self.first_wait * 2.0 ** min(attempt, DOUBLINGS)
        longest: float = min(self.longest_wait, doubled)
        return longest * self.spread
