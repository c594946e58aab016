"""States computed again from the journal's uploads: what verifies a run, under the versions that
made it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from coordinator.journal.journal import Journal
from coordinator.service.build import agreed
from coordinator.uploads.aggregate import Aggregator
from coordinator.uploads.fuse import fuse_total, start_state
from coordinator.uploads.validation import Expected


@dataclass(frozen=True)
class Replayed:
    """One state: what was recorded, and whether it comes out again. `compacted`: its uploads are
    gone.
    """

    round: int
    recorded: str
    verdict: Literal["same", "differs", "compacted"]


def replayed(journal: Journal) -> list[Replayed]:
    """Every state in order; after a gap it goes on from the next state that is there in full."""
    contract, recipe, hyper = agreed(journal)
    expected = Expected(contract.fleet, contract.run, recipe, contract)
    aggregator = Aggregator(journal, expected, hyper, staleness=0)
    states: list[Replayed] = []
    before = start_state(recipe, aggregator.turn(0))
    # Each state is built on the one before as it was computed here, not as it was recorded: so one
    # that differs makes all after it differ, unless a recorded one is taken up again after a gap.
    known_before = True
    for round, recorded in journal.state_hashes().items():
        cut = journal.cut(round)
        if round == 0 or (known_before and cut is not None and cut.failed):
            again = before
        elif known_before and cut is not None and _whole(journal, cut.counted):
            again = fuse_total(recipe, aggregator.turn(round), aggregator.total_of(cut), before)
        else:
            newest = journal.state(round)
            known_before = newest is not None
            before = newest[1] if newest is not None else before
            states.append(Replayed(round, recorded, "compacted"))
            continue
        states.append(Replayed(round, recorded, "same" if again.sha256 == recorded else "differs"))
        before = again
    return states


def _whole(journal: Journal, counted: tuple[tuple[int, str, int], ...]) -> bool:
    """Whether the bytes of all these uploads are still there."""
    uploads = [journal.upload(round, agent) for round, agent, _ in counted]
    return all(u is not None and journal.body(u.blob) is not None for u in uploads)
