"""Rounds counted: by reason, and a fusion that fails takes its time, too."""

import itertools

import pytest

from coordinator.rounds.tally import RoundTally


def test_what_was_closed_is_counted_by_reason():
    tally = RoundTally()
    for reason in ("all", "deadline", "all"):
        tally.close(reason)
    assert tally.document["closed"] == {"all": 2, "deadline": 1}


def test_a_fusion_that_fails_took_its_time():
    tally = RoundTally(clock=itertools.count(0, 2).__next__)
    with pytest.raises(ZeroDivisionError), tally.fusing():
        raise ZeroDivisionError
    with tally.fusing():
        pass
    assert tally.document["fusion_seconds"]["sum"] == 4
    assert sum(tally.fusions.counts) == 2
