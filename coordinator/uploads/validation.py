"""Which uploads are let in: a refusal has a code for programs and words for people; None means
welcome.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coordinator.config import Bounds
from protofleet.contract import Contract
from protofleet.recipe import Recipe
from protofleet.values.prototypes import (
    Head,
    Mixtures,
    Part,
    Parts,
    Prototypes,
    SoftLabels,
    Tensors,
)
from protofleet.wire import Envelope

IDENTITY = ("fleet", "run", "method", "agent", "round")


@dataclass(frozen=True)
class Refusal:
    """Why not."""

    code: str
    words: str


@dataclass(frozen=True)
class Expected:
    """What an upload must fit."""

    fleet: str
    run: str
    recipe: Recipe[Any]
    contract: Contract
    bounds: Bounds = field(default_factory=Bounds)


def identity(want: Expected, envelope: Envelope, agent: str, round: int) -> Refusal | None:
    """Whether the envelope is one of this run, and its sender who the topic says."""
    have = (envelope.fleet, envelope.run, envelope.method, envelope.agent, envelope.round)
    due = (want.fleet, want.run, want.recipe.name, agent, round)
    if have == due:
        return None
    name, said, meant = next(
        each for each in zip(IDENTITY, have, due, strict=True) if each[1] != each[2]
    )
    return Refusal(f"wrong-{name}", f"{name} is {said!r} where {meant!r} is due")


def content(want: Expected, parts: Parts, talks: bool) -> Refusal | None:
    """Whether every part is of this fleet's sizes, and its numbers are plausible."""
    if talks and not parts:
        return Refusal("empty", "an upload without parts, in a round of exchange")
    if not talks and parts:
        return Refusal("not-now", "parts in a round without exchange")
    for name, part in parts.items():
        wrong = _part(want, name, part)
        if wrong is not None:
            return Refusal(wrong.code, f"{name}: {wrong.words}")
    return None


def _part(want: Expected, name: str, part: Part) -> Refusal | None:
    if (
        not isinstance(part, Tensors)
        and part.classes.size
        and part.classes[-1] >= want.contract.n_classes
    ):
        return Refusal("class", f"class {part.classes[-1]} of {want.contract.n_classes}")
    due = want.contract.embedding
    if (
        isinstance(part, (Prototypes, Mixtures))
        and name not in want.recipe.traits.own_width
        and part.dim != due
    ):
        return Refusal("dimension", f"{part.dim} numbers a row where {due} are due")
    if isinstance(part, (Prototypes, Mixtures)) and part.counts is not None and part.counts.size:
        most = max(part.counts.tolist())
        if most > want.bounds.count:
            return Refusal(
                "count", f"{most} samples of a class, at most {want.bounds.count} are plausible"
            )
    if isinstance(part, Prototypes):
        return _lengths(want.bounds, part)
    return next(
        filter(None, (_numbers(want.bounds, name, array) for name, array in _arrays(part).items())),
        None,
    )


def _numbers(bounds: Bounds, name: str, array: NDArray[Any]) -> Refusal | None:
    if not array.size:
        return None
    if array.dtype.kind != "f":  # samples or steps: other whole numbers no method sends
        most = max(int(array.max()), -int(array.min()))
        words = f"{name} holds {most}, at most {bounds.count} is plausible"
        return Refusal("count", words) if most > bounds.count else None
    largest = float(np.abs(array).max())
    words = f"{name} holds {largest:.3g}, at most {bounds.largest:g} is plausible"
    return Refusal("size", words) if largest > bounds.largest else None


def _lengths(bounds: Bounds, part: Prototypes) -> Refusal | None:
    squares = np.einsum("ij,ij->i", part.vectors, part.vectors)
    longest = math.sqrt(max(squares.tolist(), default=0.0))
    if longest > bounds.norm:
        return Refusal(
            "norm", f"a prototype of length {longest:.3g}, at most {bounds.norm:g} is plausible"
        )
    # No number is larger than its row is long, so most rows need no second look.
    largest = float(np.abs(part.vectors).max()) if longest > bounds.largest else 0.0
    if largest > bounds.largest:
        return Refusal(
            "size", f"vectors holds {largest:.3g}, at most {bounds.largest:g} is plausible"
        )
    return None


def _arrays(part: Mixtures | Head | SoftLabels | Tensors) -> Mapping[str, NDArray[Any]]:
    match part:
        case Mixtures():
            return {"means": part.means, "variances": part.variances}
        case Head():
            return {"weight": part.weight, "bias": part.bias}
        case SoftLabels():
            return {"probabilities": part.probabilities}
        case Tensors():
            return part.arrays
