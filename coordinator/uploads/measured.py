"""What a fleet's own uploads have as their largest figures, and the limits that follow for
admission.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coordinator.config import UploadLimits
from coordinator.journal.journal import Journal
from coordinator.uploads import spreads
from coordinator.uploads.validation import longest_row
from protofleet import wire
from protofleet.errors import WireError
from protofleet.statistics.counts import COUNTS
from protofleet.values.prototypes import Head, Mixtures, Part, Parts, Prototypes, Tensors

# Of the devices as many may lie as are above this share: their figures are not looked at. The
# margin is for those honest ones that are left out with them, and for what is still to come.
SHARE, MARGIN = 0.8, 2.0


@dataclass(frozen=True)
class MeasuredLimits:
    """Limits, of how much they come, and which devices they would refuse."""

    limits: UploadLimits
    uploads: int
    devices: int
    over: tuple[str, ...]


def of_fleet(journal: Journal, margin: float = MARGIN) -> MeasuredLimits | None:
    """What follows for this journal's devices; nothing while it holds no uploads."""
    found = of_journal(journal)
    if not found:
        return None
    by_device = {agent: largest(own) for agent, own in found.items()}
    chosen = limits(by_device, margin)
    over = sorted(agent for agent, own in by_device.items() if not within(own, chosen))
    return MeasuredLimits(chosen, sum(map(len, found.values())), len(found), tuple(over))


def figures(parts: Parts) -> UploadLimits:
    """The tightest limits that would let this upload in."""
    own = [_of_part(part) for name, part in parts.items() if name != COUNTS]
    return largest([UploadLimits(0.0, 0.0, 0, 0, spreads.trace(parts)), *own])


def largest(several: Iterable[UploadLimits]) -> UploadLimits:
    """The tightest that would let all of these in."""
    tuples = [tuple(getattr(one, f.name) for f in fields(UploadLimits)) for one in several]
    return UploadLimits(*map(max, zip(*tuples, strict=True)))


def limits(by_device: Mapping[str, UploadLimits], margin: float = MARGIN) -> UploadLimits:
    """What most devices stay below, times the margin; what nobody sends stays as it is."""
    usual = UploadLimits()
    chosen: dict[str, float] = {}
    for field in fields(UploadLimits):
        figure = _usual([getattr(one, field.name) for one in by_device.values()])
        if figure > 0:
            upper = _rounded_up(margin * figure)
            whole = isinstance(getattr(usual, field.name), int)
            chosen[field.name] = int(upper) if whole else upper
    return UploadLimits(**chosen)  # type: ignore[arg-type]


def within(figures: UploadLimits, limits: UploadLimits) -> bool:
    """Whether what has these figures is let in."""
    return largest([figures, limits]) == limits


def of_journal(journal: Journal) -> dict[str, list[UploadLimits]]:
    """The figures of every upload whose bytes are there, and of what is in a ledger, by device."""
    bodies = list(journal.ledger.bodies())
    for record in journal.uploads():
        body = journal.body(record.blob)
        bodies += [(record.agent, body)] if body else []
    by_device: dict[str, list[UploadLimits]] = {}
    for agent, body in bodies:
        with suppress(WireError):
            message = wire.decode(body)
            if message.envelope.t in wire.PART_TYPES and message.body:
                by_device.setdefault(agent, []).append(figures(message.body))
    return by_device


def _usual(values: Sequence[float]) -> float:
    """The largest of the lower share of these; of one or two devices the smaller one's."""
    if not values:
        return 0.0
    return sorted(values)[math.floor(SHARE * (len(values) - 1))]


def _rounded_up(value: float) -> float:
    """To two digits: a limit is written by hand and read."""
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / step) * step:.6g}")


def _of_part(part: Part) -> UploadLimits:
    match part:
        case Prototypes() | Mixtures():
            rows = part.vectors if isinstance(part, Prototypes) else part.means
            counts = [0] if part.counts is None else part.counts.tolist()
            biggest = float(np.abs(rows).max(initial=0.0))
            most, total = max(counts, default=0), sum(counts)
            return UploadLimits(biggest, longest_row(rows), most, total, 0.0)
        case Head():
            arrays: list[NDArray[Any]] = [part.weight, part.bias]
        case Tensors():
            arrays = list(part.arrays.values())
        case _:
            arrays = []
    numbers = [a for a in arrays if a.dtype.kind == "f"]
    whole = [a for a in arrays if a.dtype.kind != "f"]
    biggest = max((float(np.abs(a).max(initial=0.0)) for a in numbers), default=0.0)
    return UploadLimits(biggest, 0.0, 0, max((int(a.max(initial=0)) for a in whole), default=0), 0)
