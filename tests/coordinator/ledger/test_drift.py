"""What devices report of their newest samples is judged by the fleet's own counts, shown, and
written down when it turns.
"""

from dataclasses import asdict

import numpy as np
import pytest

from coordinator.ledger import drift
from coordinator.ledger.drift import NOTED_EVERY, DeviceDrift, Drifts, counted_shares
from coordinator.service import status
from protofleet import wire
from protofleet.exchange.published import About, Bank
from protofleet.statistics.drift import KEPT, DriftReport, UsualShare
from protofleet.values.prototypes import Prototypes
from tests.contributing import LINEAGE, WIDTH, arrived, counted, message
from tests.coordinator.made import TOPICS, birth, frozen, ledger, totals

CALM, ODD = DriftReport(KEPT, 0.05, 0.01, 0.0, 0.01, True), DriftReport(KEPT, 0.31, 0.03)
MOVED = DriftReport(KEPT, 0.05, 0.01, 0.25, 0.01, True)


def told(agent, report, lineage=LINEAGE, **more):
    """A report as it arrives."""
    body = {"round": 0, "drift": {"lineage": lineage, **asdict(report), **more}}
    envelope = wire.Envelope("report", "orchard", agent=agent, boot="b1", round=0)
    return TOPICS.parse(TOPICS.report(agent)), wire.encode(envelope, body)


@pytest.fixture
def made(tmp_path):
    """A ledger of two devices that counted."""
    made, names = ledger(tmp_path), ("apple", "pear")
    made.take([birth("a"), birth("b")], 0.0)
    for n, agent in enumerate("ab"):
        made.take([arrived(agent, message(agent, names, n, number=20))], 1.0)
    (total,) = totals(made.take([], 30.0))
    for n, agent in enumerate("ab"):
        made.take([arrived(agent, counted(agent, names, total, n, number=20))], 31.0)
    made.take([], 60.0)
    yield made
    made.journal.close()


def events(made):
    return [(e["agent"], e["changed"]) for e in made.journal.events() if e["kind"] == "drift"]


def test_a_share_or_a_mean_far_from_usual_is_said_in_words():
    usual = UsualShare(0.05)
    shares = {"a": (0.05, 400), "b": (0.05, 400)}
    odd, moved = (drift.judged("camera-07", one, 0.05, shares) for one in (ODD, MOVED))
    assert (odd.unknown, odd.moved, moved.unknown, moved.moved) == (True, False, False, True)
    words = "31 % look like nothing the fleet knows, where 5 % is usual"
    assert odd.sentence.startswith(f"camera-07: its pictures have changed: {words} (dirty lens")
    assert "0.50 standard deviations from those it labelled" in moved.sentence
    assert not drift.judged("a", CALM, 0.05, shares).changed
    assert not drift.judged("a", ODD, 0.05, {}).changed  # nobody counted: nothing was promised
    assert DeviceDrift("a", CALM, usual).sentence.startswith("a: its pictures are as usual: 5 %")


def test_it_is_shown_and_an_event_when_it_turns_and_not_at_each_report(made):
    assert set(counted_shares(made.keeper.version, made.keeper.tally)) == {"a", "b"}
    made.take([told("a", CALM), told("b", CALM)], 70.0)
    assert [one["changed"] for one in status.ledger(made)["drift"]] == [False, False]
    for now in (80.0, 90.0):
        made.take([told("b", ODD)], now)
    first = status.ledger(made)["drift"][0]
    assert (first["agent"], first["unknown"], first["samples"]) == ("b", 0.31, ODD.samples)
    assert events(made) == [("b", True)]
    for n in range(5):  # to and fro, within the hour
        made.take([told("b", CALM if n % 2 else ODD)], 100.0 + n)
    assert events(made) == [("b", True)]
    made.take([told("b", CALM)], 80.0 + NOTED_EVERY)
    assert events(made) == [("b", True), ("b", False)]


def test_a_restart_does_not_write_it_down_again_and_forget_forgets_it(made):
    made.take([told("b", ODD)], 70.0)
    assert events(made) == [("b", True)]
    made.journal.close()
    again = ledger(made.journal.directory)
    assert again.keeper.drifts == Drifts(noted=frozenset("b"))
    again.take([told("b", ODD)], 70.0)
    assert events(again) == [("b", True)]
    again.forget("b", 71.0)
    assert not again.keeper.drifts.devices
    assert not again.keeper.drifts.noted
    again.journal.close()


@pytest.mark.parametrize(
    ("agent", "more"),
    [
        ("a", {"lineage": "extractor:other"}),
        ("a", {"unknown": 2.0}),
        ("a", {"unknown": "much"}),
        ("a", {"blocks": 2**62}),
        ("a", {"moved": -(10.0**300)}),
        ("a", {"more": 1}),
        ("nobody", {}),
    ],
)
def test_what_cannot_be_is_counted_and_no_more(made, agent, more):
    lineage = more.pop("lineage", LINEAGE)
    made.take([told(agent, CALM, lineage, **more)], 70.0)
    assert not made.keeper.drifts.devices
    assert made.allowance.dropped["drift"] == 1


def test_of_another_extractor_nothing_is_known(made):
    made.take([told("b", ODD)], 70.0)
    frozen(made, Bank(About("extractor:other", ()), Prototypes([], np.zeros((0, WIDTH)))))
    assert made.keeper.drifts == Drifts()
