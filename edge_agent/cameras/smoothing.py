"""One answer from many frames: said when it has held."""

# Theory of operation
#
# Each look at a region gives a probability for each class, p, and whether it is unknown. With the
# frames that were looked at counted by n from the last start (see below), at most N = `smooth`:
#
#   ℓ(c)       ln of p(c), or of FLOOR where that is more: no single frame rules a class out
#   M ← M + (ℓ − M) / min(n, N)       the mean of ln p over about the last N frames
#   u ← u + (unknown − u) / min(n, N)
#   candidate  unknown if u > ½, else the class with the largest M
#   streak     for how many looks in a row it has been that
#
#   said       when streak ≥ H = `hold` and the candidate is not what was said last
#   its probability is the mean of p(c) over the same frames: no more sure for many frames of one
#   still thing than for one, as frames of a camera are not independent
#   settled    streak ≥ H and the candidate is what was said: looking again would tell nothing, so
#              that only motion opens the gate again
#
# n starts at 0 when something moves in a scene that was left alone, and when what moved has come to
# rest (what was there before says nothing of what is there now, `scenes`), when the classes are
# others, and when the camera was away; after that what was said counts as nothing, too, and the
# first answer that holds is said.
#
# Without probabilities (nobody calibrated the scores) a frame is a vote: VOTE for its best class,
# the rest for the others.
#
# `protofleet bench smoothing` measures means of ln p, means of p and votes side by side.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Shares = NDArray[np.float64]
FLOOR, VOTE = 0.02, 0.9


@dataclass(frozen=True)
class Held:
    """An answer that held; no label where it is like no class."""

    label: str | None
    probability: float | None
    nearest: str  # the likeliest class, whether or not it is that
    frames: int


class Smoother:
    """Of one region."""

    def __init__(self, smooth: int, hold: int) -> None:
        self._most, self._hold = max(smooth, hold), hold
        self._classes: tuple[str, ...] = ()
        self._said: tuple[str | None] | None = None
        self.restart()

    def restart(self) -> None:
        """The scene is another one; what was said stands until another answer holds."""
        self._n, self._streak = 0, 0
        self._mean: Shares = np.zeros(len(self._classes))
        self._sure: Shares = np.zeros(len(self._classes))
        self._unknown = 0.0
        self._candidate: tuple[str | None] | None = None

    def forget(self) -> None:
        """Nothing was said."""
        self._said = None
        self.restart()

    @property
    def frames(self) -> int:
        """How many the answer is made of."""
        return self._n

    @property
    def settled(self) -> bool:
        """Whether the answer is said and holds."""
        return self._streak >= self._hold and self._candidate == self._said

    def step(
        self, classes: Sequence[str], shares: Shares | None, best: int, unknown: bool
    ) -> Held | None:
        """One more look; what is to be said now, if anything."""
        names = tuple(classes)
        if names != self._classes:
            self._classes = names
            self.restart()
        self._n = min(self._n + 1, self._most)
        votes = _votes(shares, best, len(names))
        self._mean += (np.log(np.maximum(votes, FLOOR)) - self._mean) / self._n
        self._sure += (votes - self._sure) / self._n
        self._unknown += (float(unknown) - self._unknown) / self._n
        top = int(self._mean.argmax())
        candidate = (None if self._unknown > 0.5 else names[top],)
        self._streak = self._streak + 1 if candidate == self._candidate else 1
        self._candidate = candidate
        if self._streak < self._hold or candidate == self._said:
            return None
        self._said = candidate
        sure = None if shares is None else float(self._sure[top])
        return Held(candidate[0], sure, names[top], self._n)


def _votes(shares: Shares | None, best: int, classes: int) -> Shares:
    if shares is not None:
        return shares
    votes = np.full(classes, (1 - VOTE) / max(classes - 1, 1))
    votes[best] = VOTE
    return votes
