"""A fleet that learned, in the laboratory: contributions, their total, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from protofleet.statistics.closed_form import Moments, moments
from protofleet.statistics.contribution import Contribution, Grid, contribution, fold
from protofleet.statistics.counts import Counts, count
from protofleet.statistics.held_out import Samples
from protofleet.statistics.knowledge import Knowledge, knowledge
from protofleet.values.prototypes import Floats, Ints
from protofleet.values.sums import Partial, merge_all
from simulators.photos.photographs import HoldOut, Photographs


@dataclass(frozen=True, eq=False)
class LearnedFleet:
    """Who said what, and what is known."""

    contributions: Mapping[int, Contribution]
    total: Partial
    counts: Counts
    knowledge: Knowledge


def rows_of(photographs: Photographs, split: HoldOut) -> dict[int, Ints]:
    """What each device learns from; a device without any is none."""
    every = {d: split.of(photographs, d) for d in range(len(photographs.domain_names))}
    return {domain: rows for domain, rows in every.items() if len(rows)}


def learned(
    photographs: Photographs, rows: Mapping[int, Ints], grid: Grid, rank: int
) -> LearnedFleet:
    """Contributions, then what each counts of its own samples left out, then the classifier."""
    x, y = photographs.features, photographs.labels
    own = {d: contribution(x[at], y[at], grid, rank) for d, at in rows.items()}
    total = merge_all(fold(one, grid) for one in own.values())
    whole = _moments(total)
    first, *others = (
        count(whole, Samples.of(x[at], y[at], own[d], grid)) for d, at in rows.items()
    )
    for more in others:
        first = first.plus(more)
    return LearnedFleet(own, total, first, knowledge(whole, first))


def enrolled(
    before: LearnedFleet,
    photographs: Photographs,
    rows: Mapping[int, Ints],
    photos: Ints,
    grid: Grid,
    rank: int,
) -> Knowledge:
    """The same fleet once some of its devices enrolled these photos, too: at the choice of before,
    as devices have not counted against the new total yet.
    """
    x, y = photographs.features, photographs.labels
    total = [before.total]
    for domain in np.unique(photographs.domains[photos]).tolist():
        at = photos[photographs.domains[photos] == domain]
        total.append(fold(contribution(x[at], y[at], grid, rank), grid))
    return knowledge(_moments(merge_all(total)), before.counts, current=False)


def moved(features: Floats, own: Floats, fleet: Floats) -> Floats:
    """Features with a device's own mean taken to the fleet's."""
    shifted: Floats = features - own.mean(0) + fleet.mean(0)
    return shifted


def _moments(total: Partial) -> Moments:
    whole = moments(total)
    assert whole is not None  # there is a device
    return whole
