"""What the sums of an upload look like, and what those of a run must: the names and shapes that its
devices share.

Nothing in a contract says how large a network's tensors are, and a sum takes no rows of two sizes.
Whoever came first may be the stranger, so his sums count for no more than anyone's: devices
vote by what they send, once each, cuts count the votes, and what most of a fleet's devices sent is
settled for the rest of the run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from protofleet.values.sums import Partial, Sum

# Of each sum in a part: its name there, and the shape of its rows.
Shape = tuple[tuple[str, tuple[int, ...]], ...]
ShapeSignature = Mapping[str, Shape]  # by part
Votes = Mapping[str, Mapping[Shape, frozenset[str]]]  # by part and shape, who sent it so


def signature(partial: Partial) -> ShapeSignature:
    """What a fold looks like; bags take anything, so they are not in it."""
    return _by_part(
        tuple((key, part.low.shape[1:]) for key, part in partial.items() if isinstance(part, Sum))
    )


@lru_cache(maxsize=64)
def _by_part(shapes: tuple[tuple[str, tuple[int, ...]], ...]) -> ShapeSignature:
    """One for all uploads that look alike, as nearly all of a fleet do: it is never changed."""
    by_part: dict[str, list[tuple[str, tuple[int, ...]]]] = {}
    for key, rows in shapes:
        name, _, rest = key.partition("/")
        by_part.setdefault(name, []).append((rest, rows))
    return {name: tuple(sorted(sums)) for name, sums in by_part.items()}


@dataclass(frozen=True)
class ShapeVote:
    """What is settled in a run, and the votes on what is not yet."""

    settled: ShapeSignature = field(default_factory=dict)
    votes: Votes = field(default_factory=dict)

    def unlike(self, have: ShapeSignature) -> str | None:
        """How this differs from what is settled, in words."""
        for name, shape in have.items():
            settled = self.settled.get(name, shape)
            if settled != shape:
                return _difference(name, shape, settled)
        return None

    def with_votes(self, ballots: Sequence[tuple[str, ShapeSignature]]) -> ShapeVote:
        """The votes with these; an agent's newest is its only one."""
        votes = {name: dict(by_shape) for name, by_shape in self.votes.items()}
        for agent, have in ballots:
            for name, shape in have.items():
                if name not in self.settled:
                    by_shape = {
                        other: voters - {agent} for other, voters in votes.get(name, {}).items()
                    }
                    by_shape[shape] = by_shape.get(shape, frozenset()) | {agent}
                    votes[name] = {other: voters for other, voters in by_shape.items() if voters}
        return ShapeVote(self.settled, votes)

    def outvoted(self, have: ShapeSignature) -> str | None:
        """How this differs from what more devices sent than anything else; of two with as many
        votes, neither wins.
        """
        for name, shape in have.items():
            by_shape = self.votes.get(name, {})
            mine = len(by_shape.get(shape, ()))
            for other, voters in by_shape.items():
                if other != shape and len(voters) >= mine:
                    return _difference(name, shape, other)
        return self.unlike(have)

    def settle(self, devices: int) -> ShapeVote:
        """Settle each vote that more than half of this many devices carry."""
        # Also more than half of all that voted: of devices that have gone since, and do not count
        # among these, more may have sent something else.
        won = {
            name: shape
            for name, by_shape in self.votes.items()
            for shape, voters in by_shape.items()
            if 2 * len(voters) > devices
            and 2 * len(voters) > len(frozenset().union(*by_shape.values()))
        }
        return ShapeVote(
            {**self.settled, **won}, {n: v for n, v in self.votes.items() if n not in won}
        )

    def text(self) -> str:
        """As it is kept in a journal."""
        votes = {
            name: [[shape, sorted(voters)] for shape, voters in sorted(by_shape.items())]
            for name, by_shape in sorted(self.votes.items())
        }
        return json.dumps({"settled": dict(sorted(self.settled.items())), "votes": votes})

    @classmethod
    def read(cls, text: str | None) -> ShapeVote:
        """As it was kept; nothing is agreed on in a new run."""
        if text is None:
            return cls()
        plain = json.loads(text)
        settled = {name: _shape(raw) for name, raw in plain["settled"].items()}
        votes = {
            n: {_shape(raw): frozenset(who) for raw, who in by} for n, by in plain["votes"].items()
        }
        return cls(settled, votes)


def _shape(raw: Any) -> Shape:
    return tuple((str(name), tuple(rows)) for name, rows in raw)


def _difference(part: str, have: Shape, settled: Shape) -> str:
    mine, others = dict(have), dict(settled)
    for name in sorted(mine.keys() | others.keys()):
        where = f"{part}.{name}" if name else part
        if name not in others:
            return f"{where}: other devices have none"
        if name not in mine:
            return f"{where}: missing, other devices have it"
        if mine[name] != others[name]:
            return f"{where}: {_size(mine[name])} where other devices have {_size(others[name])}"
    return f"{part}: unlike other devices'"


def _size(rows: tuple[int, ...]) -> str:
    return " × ".join(map(str, rows)) or "one number"
