"""Everything that is tried, by what goes wrong."""

from __future__ import annotations

from simulators.faults.case import Case
from simulators.faults.cases import (
    clocks,
    crowds,
    deaths,
    disks,
    forgers,
    ingesters,
    intruders,
    liars,
    links,
    masks,
    rivals,
    sites,
    standbys,
    trained,
)

CASES: tuple[Case, ...] = (
    *deaths.CASES,
    *ingesters.CASES,
    *links.CASES,
    *disks.CASES,
    *rivals.CASES,
    *standbys.CASES,
    *crowds.CASES,
    *clocks.CASES,
    *trained.CASES,
    *intruders.CASES,
    *forgers.CASES,
    *liars.CASES,
    *masks.CASES,
    *sites.CASES,
)


def by_name() -> dict[str, Case]:
    """The catalogue."""
    return {case.name: case for case in CASES}
