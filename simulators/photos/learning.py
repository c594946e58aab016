"""A fleet that learned, in the laboratory: contributions, their total, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from protofleet.statistics.closed_form import Basis
from protofleet.statistics.contribution import Contribution, Grid, contribution, fold
from protofleet.statistics.knowledge import (
    Knowledge,
    by_counts,
    by_total,
    chosen_by,
    counts_of,
    stands,
)
from protofleet.statistics.leave_one_out import Samples, losses
from protofleet.values.prototypes import Floats, Ints
from protofleet.values.sums import Partial, merge_all
from simulators.photos.photographs import HoldOut, Photographs


@dataclass(frozen=True, eq=False)
class LearnedFleet:
    """Who said what, and what is known."""

    contributions: Mapping[int, Contribution]
    total: Partial
    basis: Basis
    knowledge: Knowledge


def rows_of(photographs: Photographs, split: HoldOut) -> dict[int, Ints]:
    """What each device learns from; a device without any is none."""
    every = {d: split.of(photographs, d) for d in range(len(photographs.domain_names))}
    return {domain: rows for domain, rows in every.items() if len(rows)}


def learned(
    photographs: Photographs, rows: Mapping[int, Ints], grid: Grid, rank: int
) -> LearnedFleet:
    """Contributions, then what each says of its own samples left out, then the classifier."""
    x, y = photographs.features, photographs.labels
    own = {d: contribution(x[at], y[at], grid, rank) for d, at in rows.items()}
    total = merge_all(fold(one, grid) for one in own.values())
    basis = stands(total)
    assert basis is not None  # there is a device
    samples = {d: Samples.of(x[at], y[at], own[d]) for d, at in rows.items()}
    choice = chosen_by(basis, (losses(basis, each) for each in samples.values()))
    counts = [counts_of(basis, choice, each) for each in samples.values()]
    whole = counts[0]
    for each in counts[1:]:
        whole = whole.plus(each)
    return LearnedFleet(own, total, basis, by_counts(basis, choice, whole))


def enrolled(
    before: LearnedFleet,
    photographs: Photographs,
    rows: Mapping[int, Ints],
    photos: Ints,
    grid: Grid,
    rank: int,
) -> Knowledge:
    """The same fleet once some of its devices hold these photos, too: at the choice of before, as
    devices have not counted against the new total yet.
    """
    x, y = photographs.features, photographs.labels
    own = dict(before.contributions)
    for domain in np.unique(photographs.domains[photos]).tolist():
        more = photos[photographs.domains[photos] == domain]
        at = np.concatenate([rows.get(domain, more[:0]), more])
        own[domain] = contribution(x[at], y[at], grid, rank)
    basis = stands(merge_all(fold(one, grid) for one in own.values()))
    assert basis is not None  # there was one before
    return by_total(basis, before.knowledge.choice)


def moved(features: Floats, own: Floats, fleet: Floats) -> Floats:
    """Features with a device's own mean taken to the fleet's."""
    shifted: Floats = features - own.mean(0) + fleet.mean(0)
    return shifted
