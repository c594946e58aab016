"""What a rogue says instead of the truth: every number of it as large as admission lets in, and not
one larger.

Each attack is a function of an honest upload. A rogue also reads what the others say, so it speaks
of every class, not of its own alone.
"""

# Theory of operation
#
# An attack must be let in, or it shows what admission does and nothing of what stands behind it. So
# a rogue stays on every grid that a method's fold asks for: rows are negated, change places, or are
# multiplied by powers of two, and never made up. That is no weakness of it: a mean is moved
# furthest by what is longest, and misled most by what is another class's.
#
#   negated      every row, the other way
#   shuffled     every class's row under the next class's name
#   scaled       every row as long as can be
#   norm         as long as can be, and its numbers of random signs
#   counts       shuffled, and as many samples behind each row as can be; what is counted against a
#                total says that the least sure setting of all loses nothing, and any other all
#   covariance   the spread as large as can be, all of it in one direction (methods that send one)
#   colluding    two devices, both shuffled alike with all the counts there can be
#
# A defence must not know its attack. So beside these, against which it was built, stand others,
# which are small, or mostly true; all with as many samples behind each row as can be:
#
#   biased       every row a step away, the same for all: a third of what lies between two classes
#   flipped      every third number of every row, the other way
#   swapped      two classes under each other's names, and all else true
#   copied       the row of one class for every second class
#   leaning      every row two thirds of the way to the next class's
#   misjudged    rows and their counts are true; what is counted against a total is not
#   sybils       two devices of five (as many of any number), every second class under the name of
#                the next but one, and all else true
#
# What is not a row of a class (tensors of a network's weights) is negated, rolled or scaled whole.

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coordinator.config import UploadLimits
from coordinator.uploads import spreads
from protofleet.statistics import held_out
from protofleet.statistics.contribution import SCATTER, Grid
from protofleet.statistics.counts import COUNTS
from protofleet.values.prototypes import (
    Floats,
    Head,
    Ints,
    Mixtures,
    Part,
    Parts,
    Prototypes,
    SoftLabels,
    Tensors,
)

HALF = 6e4  # what half precision holds, and a little less
BELOW = 0.99  # of a limit, as half precision may round up
STEP, LEAN = 1 / 3, 2 / 3  # of what lies between two classes


@dataclass(frozen=True)
class RogueView:
    """What a rogue goes by: what is let in, and what the others say."""

    limits: UploadLimits
    others: Parts
    rng: np.random.Generator


Attack = Callable[[Parts, RogueView], Parts]


def negated(parts: Parts, view: RogueView) -> Parts:
    """Every row, the other way."""
    return _each(parts, view, lambda rows: -rows)


def shuffled(parts: Parts, view: RogueView) -> Parts:
    """Every class's row under the next class's name; numbers of a lone row likewise."""
    return _each(parts, view, lambda rows: np.roll(rows, 1, axis=0 if len(rows) > 1 else 1))


def scaled(parts: Parts, view: RogueView) -> Parts:
    """Every row as long as can be."""
    return _each(parts, view, lambda rows: _long(rows, view.limits))


def norm(parts: Parts, view: RogueView) -> Parts:
    """As long as can be, in no direction that means anything."""

    def change(rows: Floats) -> Floats:
        signs = view.rng.choice(np.array([-1, 1], np.float32), rows.shape)
        return _long(rows * signs, view.limits)

    return _each(parts, view, change)


def counts(parts: Parts, view: RogueView) -> Parts:
    """Shuffled, and as many samples behind each row as can be."""
    return _counted(shuffled(parts, view), view.limits)


def covariance(parts: Parts, view: RogueView) -> Parts:
    """The spread as large as can be, in one direction; a method without one is told nothing."""
    changed = dict(parts)
    for name, part in parts.items():
        if isinstance(part, Mixtures):
            room = BELOW * view.limits.trace / part.dim
            changed[name] = replace(part, variances=np.full_like(part.variances, min(room, HALF)))
        elif name == SCATTER and isinstance(part, Tensors) and part["rows"].size:
            factor = view.limits.trace / max(spreads.trace(parts), 1e-12)
            steps = max(0, int(np.log2(max(factor, 1)) / 2))
            exponents = np.minimum(part["exponents"] + steps, 40)
            changed[name] = Tensors({**part.arrays, "exponents": exponents})
    return changed


def biased(parts: Parts, view: RogueView) -> Parts:
    """Every row the same small step away."""

    def change(rows: Floats) -> Floats:
        signs = view.rng.choice(np.array([-1.0, 1.0]), rows.shape[1])
        return _onto_grid(rows + signs * (STEP * _apart(rows) / np.sqrt(rows.shape[1])))

    return _counted(_each(parts, view, change), view.limits)


def flipped(parts: Parts, view: RogueView) -> Parts:
    """Every third number, the other way."""

    def change(rows: Floats) -> Floats:
        return rows * np.where(np.arange(rows.shape[1]) % 3, 1, -1).astype(np.float32)

    return _counted(_each(parts, view, change), view.limits)


def swapped(parts: Parts, view: RogueView) -> Parts:
    """Two classes under each other's names."""
    return _counted(_each(parts, view, lambda rows: _rolled(rows, slice(0, 2))), view.limits)


def copied(parts: Parts, view: RogueView) -> Parts:
    """One class's row for every second class."""

    def change(rows: Floats) -> Floats:
        same = rows.copy()
        same[::2] = rows[-1]
        return same

    return _counted(_each(parts, view, change), view.limits)


def leaning(parts: Parts, view: RogueView) -> Parts:
    """Every row two thirds of the way to the next class's."""

    def change(rows: Floats) -> Floats:
        return _onto_grid(rows + LEAN * (np.roll(rows, 1, axis=0) - rows))

    return _counted(_each(parts, view, change), view.limits)


def misjudged(parts: Parts, view: RogueView) -> Parts:
    """The truth, until it is asked how well the total classifies."""
    part = parts.get(COUNTS)
    return {**parts, COUNTS: _misjudged(part)} if isinstance(part, Tensors) else parts


def halved(parts: Parts, view: RogueView) -> Parts:
    """Every second class under the name of the next but one."""
    return _counted(_each(parts, view, lambda rows: _rolled(rows, slice(0, None, 2))), view.limits)


COVARIANCE = "covariance"  # nothing, of a method that sends none
MISJUDGED = "misjudged"  # likewise, of one whose devices count nothing
ATTACKS: Mapping[str, Attack] = {
    "negated": negated,
    "shuffled": shuffled,
    "scaled": scaled,
    "norm": norm,
    "counts": counts,
    COVARIANCE: covariance,
    "biased": biased,
    "flipped": flipped,
    "swapped": swapped,
    "copied": copied,
    "leaning": leaning,
    MISJUDGED: misjudged,
}
COLLUDING, SYBILS = "colluding", "sybils"
CREWS: Mapping[str, Attack] = {COLLUDING: counts, SYBILS: halved}  # by several


def _each(parts: Parts, view: RogueView, change: Callable[[Floats], NDArray[Any]]) -> Parts:
    return {name: _changed(name, part, view, change) for name, part in parts.items()}


def _changed(
    name: str, part: Part, view: RogueView, change: Callable[[Floats], NDArray[Any]]
) -> Part:
    match part:
        case Prototypes():
            every = _of_every_class(name, part, view)
            counts = None if every.counts is None else _within(every.counts, view.limits)
            return replace(every, vectors=change(every.vectors), counts=counts)
        case Mixtures():
            return replace(part, means=change(part.means))
        case Head():
            return replace(part, weight=change(part.weight))
        case SoftLabels():
            return replace(part, probabilities=np.roll(part.probabilities, 1, axis=1))
        case Tensors() if name == SCATTER:
            return part  # `covariance` is about it
        case Tensors():
            return Tensors(
                {
                    key: array
                    if array.dtype.kind != "f"
                    else change(np.asarray(array, np.float32).reshape(1, -1)).reshape(array.shape)
                    for key, array in part.arrays.items()
                }
            )


def _of_every_class(name: str, own: Prototypes, view: RogueView) -> Prototypes:
    """Its own rows, and of classes that it does not have what others say of them."""
    shared = view.others.get(name)
    once = len(set(own.classes.tolist())) == len(own.classes)
    if not once or not isinstance(shared, Prototypes) or shared.dim != own.dim:
        return own
    rest = shared.only(np.setdiff1d(shared.classes, own.classes))
    if len(set(rest.classes.tolist())) != len(rest.classes) or not rest.classes.size:
        return own
    samples: Ints | None = None
    if own.counts is not None:
        usual = np.full(len(rest.classes), max(int(np.median(own.counts)), 1), np.int64)
        samples = np.concatenate([own.counts, usual])
    classes = np.concatenate([own.classes, rest.classes])
    return Prototypes(classes, np.concatenate([own.vectors, rest.vectors]), samples)


def _within(counts: Ints, limits: UploadLimits) -> Ints:
    """As many of each as are let in: who speaks of more classes has fewer samples of each."""
    most = min(limits.count, max(limits.samples // len(counts), 1))
    return counts if counts.sum() <= limits.samples else np.minimum(counts, most)


def _counted(parts: Parts, limits: UploadLimits) -> Parts:
    changed = dict(parts)
    for name, part in parts.items():
        if isinstance(part, (Prototypes, Mixtures)) and part.counts is not None:
            most = max(1, min(limits.count, limits.samples // max(len(part.counts), 1)))
            changed[name] = replace(part, counts=np.full(len(part.counts), most, np.int64))
        elif name == COUNTS and isinstance(part, Tensors):
            changed[name] = _misjudged(part)
        elif isinstance(part, Tensors) and "samples" in part.arrays:
            most_in_all = np.full_like(part["samples"], limits.samples)
            changed[name] = Tensors({**part.arrays, "samples": most_in_all})
    return changed


def _misjudged(counted: Tensors) -> Tensors:
    """All is lost at any setting but the first, and every sample is as far off as can be."""
    worst = int(held_out.WORST / held_out.STEP) * int(counted["samples"])
    losses = np.full_like(counted["losses"], worst)
    losses[0, 0] = 0
    distances = np.full_like(counted["distances"], worst)
    return Tensors({**counted.arrays, "losses": losses, "distances": distances})


def _rolled(rows: Floats, which: slice) -> Floats:
    """These rows each in the place of the next of them."""
    changed = rows.copy()
    changed[which] = np.roll(rows[which], 1, axis=0)
    return changed


def _apart(rows: Floats) -> float:
    """How far two rows usually lie from each other."""
    far = rows[:, None].astype(np.float64) - rows[None]
    sizes = np.linalg.norm(far, axis=2)[np.triu_indices(len(rows), 1)]
    return float(np.median(sizes)) if sizes.size else float(np.linalg.norm(rows))


def _onto_grid(rows: NDArray[Any]) -> Floats:
    return Grid.fitting(rows).onto(rows)


def _long(rows: Floats, limits: UploadLimits) -> Floats:
    """By the power of two that leaves the longest within what is let in."""
    longest = float(np.sqrt((rows.astype(np.float64) ** 2).sum(1).max(initial=0.0)))
    room = min(limits.norm, limits.largest, HALF) / max(longest, 1e-12)
    longer: Floats = rows * np.float32(2.0 ** np.floor(np.log2(max(room, 1e-12))))
    return longer
