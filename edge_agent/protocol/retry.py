"""What a device's protocol is told once: its name, and how patient it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RetryRules:
    """What a device is told about itself."""

    agent: str
    evaluate: bool = True
    first_wait: float = 5.0  # seconds to the second delivery of an upload without receipt; then twice as long each time
    longest_wait: float = 300.0
    tries: int = 3  # trainings of one round before it is given up
    spread: float = (
        1.0  # this device's own factor on waiting times, so that a fleet does not knock all at once
    )

    def wait(self, attempt: int) -> float:
        """Seconds until the next attempt."""
        longest: float = min(self.longest_wait, self.first_wait * 2.0 ** min(attempt, 20))
        return longest * self.spread
