"""States computed again from the journal's uploads: what verifies a run, under the versions that
made it.
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import Literal

from coordinator.core import Terms, ledger_terms
from coordinator.devices import Patience
from coordinator.journal.journal import Journal
from coordinator.journal.records import CutRecord
from coordinator.ledger import gathering
from coordinator.ledger.catalogue import Catalogue
from coordinator.ledger.ledger import Ledger
from coordinator.ledger.versions import LedgerVersion, read_ledger, read_tally, version
from coordinator.messages import Messages
from coordinator.relay.site import SITE
from coordinator.service.build import agreed
from coordinator.uploads.aggregate import Aggregator
from coordinator.uploads.fuse import fuse_total, noised, start_state
from coordinator.uploads.validation import Expected
from protofleet.exchange.gathered import GROUP
from protofleet.mqtt.topics import Topics
from protofleet.util.logs import Log

NOBODY = Patience(math.inf, math.inf)


@dataclass(frozen=True)
class Replayed:
    """One state: what was recorded, and whether it comes out again. `compacted`: its uploads are
    gone, or others took their place. Of a ledger the round is its version's number.
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
    # Of a site the states are the fleet's above, which replays them.
    at_site = journal.meta(SITE) is not None
    recorded_here = {} if at_site else journal.state_hashes()
    for round, recorded in recorded_here.items():
        cut = journal.cut(round)
        if round == 0 or (known_before and cut is not None and cut.failed):
            again = before
        elif known_before and cut is not None and _whole(journal, cut):
            total = aggregator.total_of(cut)
            if contract.budget is not None and contract.masks is None:
                total = noised(total, journal.noise(round))
            again = fuse_total(recipe, aggregator.turn(round), total, before)
        else:
            newest = journal.state(round)
            known_before = newest is not None
            before = newest[1] if newest is not None else before
            states.append(Replayed(round, recorded, "compacted"))
            continue
        states.append(Replayed(round, recorded, "same" if again.sha256 == recorded else "differs"))
        before = again
    return [*states, *_ledger_state(journal)]


def refolded(journal: Journal) -> LedgerVersion | None:
    """What the ledger's contributions and counts come to, added up anew; None where there is no
    ledger.
    """
    newest = journal.ledger.newest()
    if newest is None:
        return None
    contract, recipe, hyper = agreed(journal)
    terms = Terms(Expected(contract.fleet, contract.run, recipe, contract), hyper, 0, True, NOBODY)
    of_contract = Messages(Topics(contract.fleet), contract, recipe, hyper, 0, "", 1 << 20)
    catalogue = Catalogue(journal, of_contract, "off", Log(io.StringIO()))
    made_by, lineage = ledger_terms(terms).version, catalogue.lineage
    ledger, _ = read_ledger(journal.ledger, Ledger(lineage, buckets=made_by.buckets))
    return version(ledger, catalogue.agreed(), read_tally(journal.ledger, lineage), made_by)


def _ledger_state(journal: Journal) -> list[Replayed]:
    """The newest version, if nothing came since it was published."""
    newest, again = journal.ledger.newest(), refolded(journal)
    if newest is None or again is None:
        return []
    if (newest.changes, newest.lineage) != (journal.ledger.changes, again.lineage):
        return [Replayed(newest.version, newest.sha256, "compacted")]
    same = again.state.sha256 == newest.sha256 and _groups_are_whole(journal)
    return [Replayed(newest.version, newest.sha256, "same" if same else "differs")]


def _groups_are_whole(journal: Journal) -> bool:
    """Whether totals of masked sums are what their minutes come to."""
    contract, _, _ = agreed(journal)
    bodies = (*journal.ledger.bodies(), *journal.ledger.counted())
    return all(gathering.again(journal, contract, body) for agent, body in bodies if agent == GROUP)


def _whole(journal: Journal, cut: CutRecord) -> bool:
    """Whether the bytes of all that is in it are still there."""
    group = journal.minutes.group(cut.round)
    if group is not None:
        return journal.minutes_of(group) is not None
    uploads = [journal.upload(round, agent) for round, agent, _ in cut.counted]
    return all(u is not None and journal.body(u.blob) is not None for u in uploads)
