"""What a site knows of the rounds of the fleet above it, and whether its own may open: rounds are
opened there, and here they are the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.rounds.machine import Resumed, RunState


@dataclass(frozen=True)
class RoundAbove:
    """The newest round there."""

    number: int = 0
    base: str = ""  # the state that it builds on, by its hash
    is_open: bool = False

    def may_open(self, state: RunState, base: str) -> bool:
        """Whether the site's next round is that one, and its state is here."""
        return self.is_open and (self.number, self.base) == (state.number + 1, base)

    def skipped(self, state: RunState) -> Resumed | None:
        """Where the site stands instead, if there the rounds went on without it: before that
        round. What it has of an earlier one comes too late, and is not said any more.
        """
        if not self.is_open or self.number <= state.number:
            return None
        between = state.phase == "waiting" and self.number == state.number + 1
        return None if between else waiting(self.number - 1, state)


def waiting(number: int, state: RunState) -> Resumed:
    """Between this round and the next."""
    return Resumed(number, (), frozenset(), state.paused, "waiting")
