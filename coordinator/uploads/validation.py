"""Which uploads are let in: a refusal has a code for programs and words for people; None means
welcome.

Everything here is a function of one upload, before it is folded. So it is the same in the
laboratory, in the field and in any order, and sums stay exact: what is too large is refused whole,
never made smaller.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coordinator.config import UploadLimits
from coordinator.uploads import spreads
from protofleet.budget.private import OCTETS
from protofleet.contract import Contract
from protofleet.errors import FusionError
from protofleet.exchange import pooled
from protofleet.mqtt.topics import NAME
from protofleet.recipe import Recipe
from protofleet.statistics.counts import COUNTS
from protofleet.values.prototypes import (
    Floats,
    Head,
    Mixtures,
    Part,
    Parts,
    Prototypes,
    SoftLabels,
    Tensors,
)
from protofleet.values.sums import Sum
from protofleet.wire import Envelope
from protofleet.wire.codes import Reason

# What of an envelope must be as expected; the first that is not is named.
IDENTITY = (
    ("fleet", Reason.WRONG_FLEET),
    ("run", Reason.WRONG_RUN),
    ("method", Reason.WRONG_METHOD),
    ("agent", Reason.WRONG_AGENT),
    ("round", Reason.WRONG_ROUND),
)


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
    limits: UploadLimits = field(default_factory=UploadLimits)
    sites: tuple[str, ...] = ()  # that may speak for many devices


def identity(want: Expected, envelope: Envelope, agent: str, round: int) -> Refusal | None:
    """Whether the envelope is one of this run, and its sender who the topic says."""
    have = (envelope.fleet, envelope.run, envelope.method, envelope.agent, envelope.round)
    wants = (want.fleet, want.run, want.recipe.name, agent, round)
    if have == wants:
        return None
    fields = zip(IDENTITY, have, wants, strict=True)
    (name, reason), actual, expected = next(f for f in fields if f[1] != f[2])
    return Refusal(reason, f"{name} is {actual!r} where {expected!r} is due")


def content(want: Expected, parts: Parts, talks: bool) -> Refusal | None:
    """Whether every part is of this fleet's sizes, and its numbers are plausible."""
    if talks and not parts:
        return Refusal(Reason.EMPTY, "an upload without parts, in a round of exchange")
    if not talks and parts:
        return Refusal(Reason.NOT_NOW, "parts in a round without exchange")
    if pooled.is_pooled(parts):
        return _of_site(want, parts)
    for name, part in parts.items():
        refusal = _size(want, name, part)
        if refusal is not None:
            return Refusal(refusal.code, f"{name}: {refusal.words}")
    return bounded(want.limits, parts)


def _of_site(want: Expected, parts: Parts) -> Refusal | None:
    """Whether a site's sums are such as so many honest devices come to."""
    try:
        said = pooled.read(parts)
    except FusionError as error:
        return Refusal(error.code, error.words)
    most = want.limits.samples * len(said.claim.members)
    if not all(NAME.fullmatch(name) for name in said.claim.members):
        return Refusal(Reason.BAD_NAME, "a device's name is not one that a device may have")
    for name, part in said.partial.items():
        assert isinstance(part, Sum)  # a site says nothing else
        if int(part.weights.max()) > most:
            return Refusal(Reason.COUNT, f"{name}: more samples than so many devices may have")
        peak = float(np.abs(part.mean()).max())
        if not peak <= want.limits.largest:
            return Refusal(Reason.SIZE, f"{name}: {peak:.3g}, at most {want.limits.largest:g}")
    return None


def bounded(limits: UploadLimits, parts: Parts) -> Refusal | None:
    """Whether all of an upload is within the limits: what it may do to the others' state."""
    for name, part in parts.items():
        # Counts against a total bound themselves when they are read: they are in steps of 2⁻¹⁶.
        refusal = None if name == COUNTS else _figures(limits, part)
        if refusal is not None:
            return Refusal(refusal.code, f"{name}: {refusal.words}")
    trace = spreads.trace(parts)
    if trace > limits.trace:
        words = f"a covariance of trace {trace:.3g}, at most {limits.trace:g} is plausible"
        return Refusal(Reason.TRACE, words)
    return None


def plausible(limits: UploadLimits, part: Prototypes | Mixtures) -> Refusal | None:
    """Whether rows and counts are such as an honest device may have, whatever they came in."""
    if part.counts is not None and part.counts.size:
        counts = part.counts.tolist()  # of a few numbers quicker than numpy's
        if max(counts) > limits.count:
            words = f"{max(counts)} samples of a class, at most {limits.count} are plausible"
            return Refusal(Reason.COUNT, words)
        if sum(counts) > limits.samples:
            words = f"{sum(counts)} samples, at most {limits.samples} are plausible"
            return Refusal(Reason.COUNT, words)
    return _lengths(limits, part.vectors if isinstance(part, Prototypes) else part.means)


def _size(want: Expected, name: str, part: Part) -> Refusal | None:
    # Values keep their classes sorted and from 0 up, so the last one speaks for all.
    if (
        not isinstance(part, Tensors)
        and part.classes.size
        and part.classes[-1] >= len(want.contract.classes)
    ):
        return Refusal(Reason.CLASS, f"class {part.classes[-1]} of {want.contract.n_classes}")
    width = want.contract.embedding
    if (
        isinstance(part, (Prototypes, Mixtures))
        and part.dim != width
        and name not in want.recipe.traits.own_width
    ):
        return Refusal(Reason.DIMENSION, f"{part.dim} numbers a row where {width} are due")
    return None


def _figures(limits: UploadLimits, part: Part) -> Refusal | None:
    if isinstance(part, (Prototypes, Mixtures)):
        refusal = plausible(limits, part)
        if refusal is not None or isinstance(part, Prototypes):
            return refusal
    refusals = (_numbers(limits, name, array) for name, array in _arrays(part).items())
    return next(filter(None, refusals), None)


def _numbers(limits: UploadLimits, name: str, array: NDArray[Any]) -> Refusal | None:
    if not array.size:
        return None
    if name.endswith(OCTETS):  # digits of whole numbers; who reads them bounds what they make
        return None
    if array.dtype.kind != "f":  # samples or steps: other whole numbers no method sends
        most = max(int(array.max()), -int(array.min()))
        words = f"{name} holds {most}, at most {limits.samples} is plausible"
        return Refusal(Reason.COUNT, words) if most > limits.samples else None
    largest = float(np.abs(array).max())
    words = f"{name} holds {largest:.3g}, at most {limits.largest:g} is plausible"
    return Refusal(Reason.SIZE, words) if largest > limits.largest else None


def _lengths(limits: UploadLimits, rows: Floats) -> Refusal | None:
    longest = longest_row(rows)
    if longest > limits.norm:
        return Refusal(
            Reason.NORM,
            f"a prototype of length {longest:.3g}, at most {limits.norm:g} is plausible",
        )
    # No number is larger than its row is long, so most rows need no second look.
    largest = float(np.abs(rows).max()) if longest > limits.largest else 0.0
    if largest > limits.largest:
        return Refusal(
            Reason.SIZE, f"vectors holds {largest:.3g}, at most {limits.largest:g} is plausible"
        )
    return None


def longest_row(rows: Floats) -> float:
    """The length of the longest, 0 where there is none."""
    # No temporary as large as the rows themselves, which their squares would be.
    with np.errstate(over="ignore"):  # an infinite length is one that is refused
        squares = np.vecdot(rows, rows)
    return math.sqrt(max(squares.tolist(), default=0.0))


def _arrays(part: Mixtures | Head | SoftLabels | Tensors) -> Mapping[str, NDArray[Any]]:
    match part:
        case Mixtures():
            return {"variances": part.variances}
        case Head():
            return {"weight": part.weight, "bias": part.bias}
        case SoftLabels():
            return {"probabilities": part.probabilities}
        case Tensors():
            return part.arrays
