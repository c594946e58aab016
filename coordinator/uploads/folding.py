"""One upload made into sums, and sums that look alike added up, wherever uploads are folded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from coordinator.uploads import shape_vote
from coordinator.uploads.shape_vote import ShapeSignature, ShapeVote
from coordinator.uploads.validation import Expected, Refusal
from protofleet.errors import FusionError
from protofleet.exchange import pooled
from protofleet.exchange.state import Upload
from protofleet.recipe import Turn
from protofleet.values.prototypes import Part, Parts
from protofleet.values.sums import Partial, merge
from protofleet.wire.codes import Reason

# Which parts are used. A recipe folds what it needs and would overlook the rest, so an upload could
# carry parts that nobody checks. `AccessLog` notes what was looked at; a part that was not is
# refused.
#
# Trap: `recipe.fold` runs on what a stranger sent. Whatever it raises is a refusal of that upload
# and must not end the service; this is the one place for a bare `Exception`.


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
    """The uploads of one signature, and their total."""

    signature: ShapeSignature
    total: Partial = field(default_factory=dict)
    uploads: list[tuple[int, str]] = field(default_factory=list)


def add_group(groups: list[Group], more: Group) -> None:
    """To the group of its signature; `FusionError` where its sums cannot be joined."""
    for group in groups:
        if group.signature == more.signature:
            group.total = merge(group.total, more.total)
            group.uploads += more.uploads
            return
    groups.append(Group(more.signature, more.total, list(more.uploads)))


class Folding:
    """What an upload comes to, by the method and by what devices agreed on."""

    def __init__(self, expected: Expected, hyper: Any) -> None:
        self.expected, self._hyper = expected, hyper
        self._turn = Turn(expected.contract, hyper, 0)
        self.agreed = ShapeVote()

    def turn(self, round: int) -> Turn[Any]:
        """What a recipe's moves are given."""
        if self._turn.round != round:
            self._turn = Turn(self.expected.contract, self._hyper, round)
        return self._turn

    def fold(self, upload: Upload, weight: int) -> Partial:
        """Its sums; raises whatever the method does."""
        if pooled.is_pooled(upload.parts):
            return pooled.read(upload.parts).partial
        return self.expected.recipe.fold(self.turn(upload.round), upload, weight)

    def folded(self, upload: Upload, weight: int) -> tuple[Partial, ShapeSignature] | Refusal:
        """Its sums and what they look like, or why they cannot be added."""
        parts = AccessLog(upload.parts)
        try:
            partial = self.fold(Upload(upload.agent, upload.round, upload.base, parts), weight)
        except Exception as error:  # whatever a recipe stumbles over in what a stranger sent
            return refusal_of(error)
        for name in upload.parts:
            if name not in parts.names and not pooled.is_pooled(upload.parts):
                return Refusal(
                    Reason.PART, f"{name}: {self.expected.recipe.name} has no use for such a part"
                )
        signature = shape_vote.signature(partial)
        words = self.agreed.unlike(signature)
        return (partial, signature) if words is None else Refusal(Reason.UNLIKE, words)

    def add(self, groups: list[Group], upload: Upload, weight: int) -> Refusal | None:
        """Fold an upload into the group that it belongs to."""
        folded = self.folded(upload, weight)
        if isinstance(folded, Refusal):
            return folded
        partial, signature = folded
        try:
            for group in groups:
                if group.signature == signature:
                    group.total = merge(group.total, partial)
                    group.uploads.append((upload.round, upload.agent))
                    return None
        except FusionError as error:
            return refusal_of(error)
        groups.append(Group(signature, partial, [(upload.round, upload.agent)]))
        return None


def refusal_of(error: Exception) -> Refusal:
    """An error as a device is told of it."""
    return Refusal(getattr(error, "code", Reason.BAD_FUSION), " ".join(str(error).split()))
