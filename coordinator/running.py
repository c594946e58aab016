"""The fusion of the open round as it grows: uploads folded as they come, or read again from the journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coordinator.admission import Expected, Refusal
from coordinator.journal import CutRound, Journal, Kept
from protofleet import wire
from protofleet.exact import Partial, merge
from protofleet.exchange import Upload
from protofleet.recipe import Turn

FRESH = 16  # weight of an upload without staleness, where staleness is allowed


class Running:
    """A partial, and whose uploads are in it."""

    def __init__(self, journal: Journal, expected: Expected, hyper: Any, staleness: int) -> None:
        self._journal, self._expected, self._hyper, self._staleness = journal, expected, hyper, staleness
        self._turn = Turn(expected.contract, hyper, 0)
        self.number = 0
        self.total: Partial = {}
        self.agents: set[str] = set()

    def begin(self, number: int, kept: Sequence[Kept] = ()) -> None:
        """A round opens; `kept` is what is in it already."""
        self.number, self.total, self.agents = number, {}, set()
        for each in kept:
            self.add(self.upload(each))

    def add(self, upload: Upload) -> Refusal | None:
        """Fold an upload into the total, if it fits what is there."""
        if upload.parts:
            try:
                self.total = merge(self.total, self._fold(upload, self.weight(upload.round)))
            except Exception as error:  # whatever a recipe stumbles over in what a stranger sent is a refusal
                return _unfit(error)
        self.agents.add(upload.agent)
        return None

    def unfit(self, upload: Upload) -> Refusal | None:
        """Why an upload could not be folded later, either; whether it fits the others is seen then."""
        try:
            self._fold(upload, 1)
        except Exception as error:
            return _unfit(error)
        return None

    def of_cut(self, cut: CutRound) -> Partial:
        """The total of a round that was cut, from the journal alone."""
        total: Partial = {}
        for round, agent, weight in cut.counted:
            kept = self._journal.upload(round, agent)
            if kept is not None:
                upload = self.upload(kept)
                total = merge(total, self._fold(upload, weight)) if upload.parts else total
        return total

    def upload(self, kept: Kept) -> Upload:
        """An upload as it came."""
        message = wire.decode(self._journal.body(kept.blob) or b"")
        return Upload(kept.agent, kept.round, str(message.envelope.base), message.body)

    def weight(self, round: int) -> int:
        """Whole weights that fall with the root of staleness; one for all where staleness is not allowed."""
        if not self._staleness:
            return 1
        return max(1, int(FRESH / (1 + max(0, self.number - round)) ** 0.5 + 0.5))

    def turn(self, round: int) -> Turn[Any]:
        """What a recipe's moves are given."""
        if self._turn.round != round:
            self._turn = Turn(self._expected.contract, self._hyper, round)
        return self._turn

    def _fold(self, upload: Upload, weight: int) -> Partial:
        return self._expected.recipe.fold(self.turn(upload.round), upload, weight)


def _unfit(error: Exception) -> Refusal:
    return Refusal(getattr(error, "code", "bad-fusion"), " ".join(str(error).split()))
