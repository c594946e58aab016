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
    running = Aggregator(
        journal, Expected(contract.fleet, contract.run, recipe, contract), hyper, 0
    )
    found: list[Replayed] = []
    before = start_state(recipe, running.turn(0))
    known = True
    for round, recorded in journal.state_hashes().items():
        cut = journal.cut(round)
        if round == 0:
            again = before
        elif known and cut is not None and _whole(journal, cut.counted):
            again = fuse_total(recipe, running.turn(round), running.of_cut(cut), before)
        else:
            kept = journal.state(round)
            known = kept is not None
            before = kept[1] if kept is not None else before
            found.append(Replayed(round, recorded, "compacted"))
            continue
        found.append(Replayed(round, recorded, "same" if again.sha256 == recorded else "differs"))
        before = again
    return found


def _whole(journal: Journal, counted: tuple[tuple[int, str, int], ...]) -> bool:
    kept = [journal.upload(round, agent) for round, agent, _ in counted]
    return all(k is not None and journal.body(k.blob) is not None for k in kept)
