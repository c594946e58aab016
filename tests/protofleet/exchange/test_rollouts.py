"""Plans and reports: what is read is bounded, and shares are the same wherever they are drawn."""

import pytest

from protofleet import wire
from protofleet.errors import WireError
from protofleet.exchange.rollouts import (
    RolloutPlan,
    RolloutReport,
    TrialFigures,
    TrialTerms,
    place,
    read_plan,
    read_report,
    write_plan,
    write_report,
)
from protofleet.wire import Envelope

PLAN = RolloutPlan(
    7, "b" * 64, "extractor:e", "halted", 0.25, 12, ("door",), terms=TrialTerms(soak=5.0)
)
DESIRED = Envelope("desired", "f", "r", 1)
REPORTED = Envelope("reported", "f", agent="door")


def test_both_travel_whole():
    assert read_plan(write_plan(PLAN, DESIRED)) == PLAN
    report = RolloutReport("a" * 64, 7, "refused", "worse", "12 points", TrialFigures(9, 8, 5))
    assert read_report(write_report(report, REPORTED)) == (report, REPORTED)


@pytest.mark.parametrize(
    "change",
    [
        {"share": 1.5},
        {"phase": "soon"},
        {"number": -1},
        {"bundle": ""},
        {"canaries": ["x"] * 501},
        {"terms": {"soak": -1.0}},
        {"somebody": "else"},
        {"canaries": "door"[:0] or 3},
    ],
)
def test_a_plan_that_is_none_is_refused(change):
    body = {"number": 1, "bundle": "b" * 64, **change}
    with pytest.raises(WireError):
        read_plan(wire.encode(DESIRED, body))


def test_another_message_is_none_either():
    with pytest.raises(WireError, match="type desired"):
        read_plan(write_report(RolloutReport(), REPORTED))
    with pytest.raises(WireError, match="type reported"):
        read_report(write_plan(PLAN, DESIRED))


def test_words_of_a_device_are_one_short_line():
    report = RolloutReport("a" * 64, 1, "refused", "worse\n", "\x1b[2J" + "x" * 240)
    read, _ = read_report(write_report(report, REPORTED))
    assert read.words.startswith("?[2Jxxx")
    assert (len(read.words), read.reason) == (244, "bundle")


def test_shares_grow_and_canaries_are_in():
    names = [f"camera-{n}" for n in range(4000)]
    inside = [{n for n in names if place(3, 0, n) < share} for share in (0.05, 0.5)]
    assert inside[0] < inside[1]
    assert 0.04 < len(inside[0]) / 4000 < 0.06
    assert PLAN.includes("door")
    assert sum(map(PLAN.includes, names)) == sum(place(7, 12, n) < 0.25 for n in names)
