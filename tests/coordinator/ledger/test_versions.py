"""What comes of contributions and counts is the same however it is made."""

import pytest

from coordinator.journal.journal import Journal
from coordinator.journal.tables import ContributionRecord, CountsRecord
from coordinator.ledger.ledger import Ledger
from coordinator.ledger.versions import (
    CountTotal,
    OfferedTotal,
    VersionTerms,
    read_contribution,
    read_ledger,
    read_tally,
    version,
)
from protofleet import registry
from protofleet.errors import FusionError
from protofleet.exchange import contributed
from protofleet.wire import Envelope
from tests.contributing import LINEAGE, counted, message, read

TERMS = VersionTerms("half", registry.load("fleet").precision, 0.05)
NAMES = {"a": ("apple", "plum"), "b": ("plum", "pear")}


def of(agents, tally=None):
    ledger = Ledger(LINEAGE)
    for agent in agents:
        ledger = ledger.plus(agent, read(agent, NAMES[agent]))
    return version(ledger, ("plum",), tally or CountTotal(), TERMS)


def reports(made, agents="ab"):
    total = made.to_count_against(Envelope("global", "orchard"))
    return {agent: contributed.read(counted(agent, NAMES[agent], total)) for agent in agents}


def test_counts_of_this_total_are_current_and_order_is_nothing():
    made = of("ab")
    assert made.knowledge.calibration.samples == 0
    every = list(reports(made).items())
    tallies = []
    for order in (every, every[::-1]):
        tally = CountTotal()
        for agent, report in order:
            tally = tally.plus(agent, report)
        tallies.append(of("ba", tally))
    assert tallies[0].state.sha256 == tallies[1].state.sha256 != made.state.sha256
    assert tallies[0].knowledge.calibration.current
    assert not of("a", tally).knowledge.calibration.current


def test_counts_of_two_totals_are_never_added():
    first, second = reports(of("ab")), reports(of("b"), "b")
    tally = CountTotal().plus("a", first["a"]).plus("b", second["b"])
    assert (tally.total, set(tally.counts)) == (second["b"].claim.total, {"b"})
    assert CountTotal().but(()) is None


def test_a_ledger_without_anybody_comes_to_nothing():
    made = of("")
    assert (made.learnt(1.0), made.state.shared, made.devices) == (None, {}, 0)


def test_from_the_journal_it_is_the_same(tmp_path):
    journal, made = Journal(tmp_path, lambda: 0.0), of("ab")
    with journal.commit():
        for agent, names in NAMES.items():
            record = ContributionRecord(agent, "", read(agent, names).digest)
            journal.ledger.put_contribution(LINEAGE, record, message(agent, names))
        total = made.to_count_against(Envelope("global", "orchard"))
        for agent, names in NAMES.items():
            payload = counted(agent, names, total)
            report = contributed.read(payload)
            record = CountsRecord(agent, report.claim.total, report.digest, payload)
            journal.ledger.put_counts(LINEAGE, record)
    empty = Ledger(LINEAGE)
    (ledger, _), tally = read_ledger(journal.ledger, empty), read_tally(journal.ledger, LINEAGE)
    again = version(ledger, ("plum",), tally, TERMS)
    assert again.total == made.total
    assert again.knowledge.calibration.current
    assert read_ledger(journal.ledger, empty, like=ledger)[0] is ledger
    without, _ = read_ledger(journal.ledger, empty, but=["b"], like=ledger)
    assert version(without, ("plum",), CountTotal(), TERMS).state.sha256 == of("a").state.sha256
    with journal.commit():
        journal._db.execute("UPDATE contributions SET body=x'00' WHERE agent='b'")
    damaged, agents = read_ledger(journal.ledger, empty)
    assert (damaged.agents, agents) == (["a"], ["b"])
    with pytest.raises(FusionError, match="no contribution of c"):
        read_contribution(journal.ledger, LINEAGE, "c", "")


def test_whose_turn_it_is_depends_on_the_total_and_the_name_alone():
    half = [OfferedTotal(LINEAGE, total, 9, 0.5) for total in ("t", "u")]
    drawn = [{n for n in range(400) if one.is_for(str(n))} for one in half]
    assert all(150 < len(numbers) < 250 for numbers in drawn)
    assert drawn[0] != drawn[1]
    assert OfferedTotal(LINEAGE, "t", 9, 1.0).is_for("anybody")
    assert not OfferedTotal().is_for("anybody")
