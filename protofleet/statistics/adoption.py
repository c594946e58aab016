"""Which of two extractors a fleet sees better through, by what its devices counted of samples that
were held out of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from protofleet.errors import SettingError
from protofleet.statistics.closed_form import SHRINKAGE
from protofleet.statistics.counts import Counts
from protofleet.statistics.held_out import STEP, TEMPERATURES, TIE


@dataclass(frozen=True)
class Standard:
    """What a fleet's counts come to, at the shrinkage and temperature that they choose."""

    samples: int = 0  # that were held out
    right: int = 0
    steps: int = 0  # of their log-losses, added up

    def __post_init__(self) -> None:
        # It comes with bundles from elsewhere.
        if not 0 <= self.right <= self.samples or self.steps < 0:
            raise SettingError(
                "held out: not more can be right than there are, and no loss is negative"
            )

    @staticmethod
    def of(counts: Counts | None) -> Standard:
        """Of nobody's counts, none."""
        choice = None if counts is None else counts.choice
        if counts is None or choice is None:
            return Standard()
        row = SHRINKAGE.index(choice.shrinkage)
        column = TEMPERATURES.index(choice.temperature)
        right, steps = int(counts.right[row, column].sum()), int(counts.losses[row, column])
        return Standard(counts.samples, right, steps)

    @property
    def accuracy(self) -> float:
        """Share that is right."""
        return self.right / max(self.samples, 1)

    @property
    def loss(self) -> float:
        """Mean log-loss."""
        return self.steps * STEP / max(self.samples, 1)

    @property
    def words(self) -> str:
        """For people."""
        return f"{100 * self.accuracy:.1f} % right, log-loss {self.loss:.3f}"


@dataclass(frozen=True)
class Verdict:
    """An extractor that is there, and one that would take its place."""

    before: Standard
    after: Standard

    @property
    def chance(self) -> float:
        """One standard error of the difference between both accuracies."""
        # As if they were counted on different samples: they are on the same ones, and chance is
        # less, by how much the sums do not say. A change costs every device a pass over its
        # samples.
        both = (self.before, self.after)
        return sqrt(sum(s.accuracy * (1 - s.accuracy) / max(s.samples, 1) for s in both))

    @property
    def is_better(self) -> bool:
        """Whether the other one is adopted: surer of what is right, and right more often than by
        chance.
        """
        if not self.before.samples or not self.after.samples:
            return False
        surer = self.before.loss - self.after.loss > TIE * STEP
        return surer and self.after.accuracy - self.before.accuracy > self.chance

    @property
    def standing(self) -> Standard:
        """Of what is adopted now."""
        return self.after if self.is_better else self.before

    @property
    def sentence(self) -> str:
        """For people."""
        if not self.before.samples or not self.after.samples:
            return "refused: no device could hold samples out of both extractors"
        held = f"of {self.after.samples:,} samples held out, {self.before.words} before"
        if self.is_better:
            return f"adopted: {held}, {self.after.words} now"
        more = f"more than {100 * self.chance:.1f} points and a lower loss are due"
        return f"refused: {held}, {self.after.words} with it; {more}"
