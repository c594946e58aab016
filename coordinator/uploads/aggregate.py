"""The fusion of the open round as it grows: uploads folded as they come, or read again from the
journal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coordinator.journal.journal import Journal
from coordinator.journal.records import CutRecord, UploadRecord
from coordinator.uploads import shape_vote
from coordinator.uploads.shape_vote import ShapeSignature, ShapeVote
from coordinator.uploads.validation import Expected, Refusal
from protofleet import wire
from protofleet.errors import FusionError
from protofleet.exchange.state import Upload
from protofleet.recipe import Turn
from protofleet.values.prototypes import Part, Parts
from protofleet.values.sums import Partial, merge, merge_all

FRESH = 16  # weight of an upload without staleness, where staleness is allowed
AGREED = "likeness"  # what the journal calls it


class AccessLog(Mapping[str, Part]):
    """Parts, and which of them somebody looked at."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> Part:
        part = self._parts[name]
        self.names.add(name)
        return part

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


@dataclass
class Group:
    """The uploads of one likeness, and their total."""

    like: ShapeSignature
    total: Partial
    uploads: list[tuple[int, str]]


class Aggregator:
    """A partial, and whose uploads are in it. Uploads that do not look alike wait in totals of
    their own.
    """

    def __init__(self, journal: Journal, expected: Expected, hyper: Any, staleness: int) -> None:
        self._journal, self._expected, self._hyper, self._staleness = (
            journal,
            expected,
            hyper,
            staleness,
        )
        self._turn = Turn(expected.contract, hyper, 0)
        self.number = 0
        self.total: Partial = {}
        self.agents: set[str] = set()
        self._agreed = ShapeVote()
        self._groups: list[Group] = []

    def begin(self, number: int, kept: Sequence[UploadRecord] = ()) -> None:
        """A round opens; `kept` is what is in it already."""
        self.number, self.total, self.agents, self._groups = number, {}, set(), []
        self._agreed = ShapeVote.read(self._journal.meta(AGREED))
        for each in kept:
            self.add(self.upload(each))

    def add(self, upload: Upload) -> Refusal | None:
        """Fold an upload, if it fits what is agreed on."""
        if upload.parts:
            found = self._fitting(upload, self.weight(upload.round))
            if isinstance(found, Refusal):
                return found
            partial, like = found
            group = next((each for each in self._groups if each.like == like), None)
            if group is None:
                group = Group(like, {}, [])
                self._groups.append(group)
            try:
                group.total = merge(group.total, partial)
            except FusionError as error:
                return _unfit(error)
            group.uploads.append((upload.round, upload.agent))
        self.agents.add(upload.agent)
        return None

    def unfit(self, upload: Upload) -> Refusal | None:
        """Why an upload could not be folded later, either; whether it fits the others is seen
        then.
        """
        found = self._fitting(upload, 1)
        return found if isinstance(found, Refusal) else None

    def close(self, devices: int) -> tuple[dict[tuple[int, str], Refusal], str]:
        """The total is that of the likeness with most votes; who is left out of it and why, and
        what to write down.
        """
        cast = [(agent, group.like) for group in self._groups for _, agent in group.uploads]
        agreed = self._agreed.counted(cast)
        out: dict[tuple[int, str], Refusal] = {}
        total: list[Partial] = []
        for group in self._groups:
            words = agreed.outvoted(group.like)
            if words is None:
                total.append(group.total)
            else:
                out |= dict.fromkeys(group.uploads, Refusal("unlike", words))
        self.total = merge_all(total)
        return out, agreed.closed(devices).text()

    def of_cut(self, cut: CutRecord) -> Partial:
        """The total of a round that was cut, from the journal alone."""
        total: Partial = {}
        for round, agent, weight in cut.counted:
            kept = self._journal.upload(round, agent)
            if kept is not None:
                upload = self.upload(kept)
                total = merge(total, self._fold(upload, weight)) if upload.parts else total
        return total

    def upload(self, kept: UploadRecord) -> Upload:
        """An upload as it came."""
        message = wire.decode(self._journal.body(kept.blob) or b"")
        return Upload(kept.agent, kept.round, str(message.envelope.base), message.body)

    def weight(self, round: int) -> int:
        """Whole weights that fall with the root of staleness; one for all where staleness is not
        allowed.
        """
        if not self._staleness:
            return 1
        return max(1, int(FRESH / (1 + max(0, self.number - round)) ** 0.5 + 0.5))

    def turn(self, round: int) -> Turn[Any]:
        """What a recipe's moves are given."""
        if self._turn.round != round:
            self._turn = Turn(self._expected.contract, self._hyper, round)
        return self._turn

    def _fitting(self, upload: Upload, weight: int) -> tuple[Partial, ShapeSignature] | Refusal:
        seen = AccessLog(upload.parts)
        try:
            partial = self._fold(Upload(upload.agent, upload.round, upload.base, seen), weight)
        except (
            Exception
        ) as error:  # whatever a recipe stumbles over in what a stranger sent is a refusal
            return _unfit(error)
        for name in upload.parts:
            if name not in seen.names:
                return Refusal(
                    "part", f"{name}: {self._expected.recipe.name} has no use for such a part"
                )
        like = shape_vote.of(partial)
        words = self._agreed.unlike(like)
        return (partial, like) if words is None else Refusal("unlike", words)

    def _fold(self, upload: Upload, weight: int) -> Partial:
        return self._expected.recipe.fold(self.turn(upload.round), upload, weight)


def _unfit(error: Exception) -> Refusal:
    return Refusal(getattr(error, "code", "bad-fusion"), " ".join(str(error).split()))
