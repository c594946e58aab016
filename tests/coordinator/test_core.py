"""The coordinator without a network: what it answers is on disk, and order, repetition and crashes
change nothing.
"""

import itertools
import json
from dataclasses import replace
from functools import partial
from statistics import pstdev

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator.core import ATTEMPTS, HEARD_EPOCH, deviation
from coordinator.errors import JournalError
from coordinator.service.replay import replayed
from coordinator.uploads.aggregate import Aggregator
from protofleet import wire
from protofleet.errors import FusionError
from protofleet.exchange.lots import read_lots
from tests.coordinator.made import (
    AGENTS,
    agreed,
    announced,
    birth,
    core,
    expected,
    joined,
    parts_of,
    receipts,
    upload,
)
from tests.working import steps

QUICK = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def test_a_run_of_three_rounds(tmp_path):
    made = core(tmp_path)
    round, phase, base = joined(made)
    for number in (1, 2, 3):
        assert (round, phase) == (number, "open")
        said = made.take([upload(a, number, base) for a in AGENTS], 1.0)
        assert receipts(said) == [(a, "accepted", "") for a in AGENTS]
        round, phase, base = announced(said)
    assert phase == "done"
    assert made.state.sha256 == expected(made, 3).sha256


@QUICK
@given(st.permutations([(a, r) for a in AGENTS for r in range(3)]), st.integers(1, 4))
def test_order_repetition_and_batches_change_nothing(tmp_path_factory, deliveries, batch):
    made = core(tmp_path_factory.mktemp("core"), rounds=1)
    _, _, base = joined(made)
    statuses = []
    for start in range(0, len(deliveries), batch):
        statuses += receipts(
            made.take([upload(a, 1, base) for a, _ in deliveries[start : start + batch]], 1.0)
        )
    assert {s for _, s, _ in statuses} <= {"accepted", "duplicate"}
    assert sorted(a for a, s, _ in statuses if s == "accepted") == list(AGENTS)
    assert made.state.sha256 == expected(made, 1).sha256


@pytest.mark.parametrize("dies_at", range(1, 12))
def test_a_crash_at_any_commit_ends_in_the_same_state(tmp_path, dies_at):
    """Before each commit the process dies once; what was receipted is there, and devices send the
    rest again.
    """
    made, commits, receipted = core(tmp_path), itertools.count(1), set()
    real = made.journal.commit

    def dying():
        if next(commits) == dies_at:
            raise KeyboardInterrupt
        return real()

    made.journal.commit = dying
    for _ in range(40):
        try:
            if made.run_state.number == 0:
                joined(made)
            number, base = made.run_state.number, made.journal.rounds(1)[0].base
            for agent in AGENTS:
                for who, status, _ in receipts(made.take([upload(agent, number, base)], 1.0)):
                    receipted.add((number, who))
                    assert status in ("accepted", "duplicate")
        except KeyboardInterrupt:
            made.journal.close()
            made = core(tmp_path)
            joined(made)
            for number, agent in receipted:
                assert made.journal.upload(number, agent) is not None
        if made.run_state.phase == "done":
            break
    assert made.state.sha256 == expected(made, 3).sha256


def test_a_journal_that_cannot_be_written_is_not_answered_and_nothing_is_lost(tmp_path):
    made = core(tmp_path, rounds=1)
    _, _, base = joined(made)
    real = made.journal.commit

    def full():
        raise JournalError("the journal cannot be written: disk full")

    made.journal.commit = full
    with pytest.raises(JournalError):
        made.take([upload("a", 1, base)], 1.0)
    made.journal.commit = real
    made.recover(2.0)
    assert receipts(made.take([upload(a, 1, base) for a in AGENTS], 3.0)) == [
        (a, "accepted", "") for a in AGENTS
    ]
    assert made.state.sha256 == expected(made, 1).sha256


def test_with_staleness_a_late_upload_enters_the_next_round_with_less_weight(tmp_path):
    made = core(tmp_path, quorum=0.5, staleness=1)
    _, _, base = joined(made)
    made.take([upload("a", 1, base), upload("b", 1, base)], 1.0)
    _, _, second = announced(made.take([], 61.0))
    assert receipts(made.take([upload("c", 1, base)], 62.0)) == [("c", "accepted", "")]
    made.take([upload("a", 2, second), upload("b", 2, second)], 63.0)
    made.take([], 200.0)
    assert made.journal.cut(2).counted == ((2, "a", 16), (2, "b", 16), (1, "c", 11))


def test_asynchronous_rounds_are_cuts_of_so_many_uploads(tmp_path):
    made = core(tmp_path, cut=2, staleness=3, min_agents=1)
    _, _, base = joined(made)
    said = made.take([upload("a", 1, base), upload("b", 1, base)], 1.0)
    round, _, second = announced(said)
    assert round == 2
    made.take([upload("c", 1, base)], 2.0)
    made.take([upload("a", 2, second)], 3.0)
    assert made.journal.cut(2).counted == ((2, "a", 16), (1, "c", 11))
    assert made.run_state.number == 3


def test_held_uploads_too_old_to_be_fused_do_not_count_toward_a_cut(tmp_path):
    made = core(tmp_path, cut=2, staleness=1, min_agents=1, rounds=None)
    _, _, base = joined(made)
    made.take([upload("a", 1, base), upload("b", 1, base)], 1.0)
    second = made.state.base
    made.take([upload("c", 1, base), upload("c", 2, second)], 2.0)
    made.take([upload("a", 2, second)], 3.0)
    for number in (3, 4, 5):
        base = made.state.base
        assert made.run_state.number == number
        made.take([upload("a", number, base)], 4.0)
        assert made.run_state.number == number
        made.take([upload("b", number, base)], 5.0)


def test_a_device_that_leaves_or_declines_is_not_waited_for(tmp_path):
    made = core(tmp_path, min_agents=2)
    _, _, base = joined(made)
    made.take([upload("a", 1, base), upload("b", 1, base)], 1.0)
    report = wire.Envelope(t="report", fleet="orchard", agent="c", round=1)
    declined = (
        made.topics.parse(made.topics.report("c")),
        wire.encode(report, {"refused": "outside its training windows"}),
    )
    assert announced(made.take([declined], 2.0))[0] == 2
    base = made.state.base
    made.take([upload("a", 2, base), upload("c", 2, base)], 3.0)
    assert announced(made.take([birth("b", online=False, reason="left")], 4.0))[0] == 3


def test_a_restart_asks_the_devices_it_knows_except_those_that_left(tmp_path):
    made = core(tmp_path, min_agents=2)
    _, _, base = joined(made)
    made.take([birth("c", online=False, reason="left")], 1.0)
    made.take([upload("a", 1, base)], 1.0)
    made.journal.close()
    again = core(tmp_path, min_agents=2)
    again.recover(0.0)
    again.take([upload("b", 1, base)], 1.0)
    again.take([upload("c", 1, base)], 1.0)
    assert again.run_state.number == 2
    assert again.run_state.asked == ("a", "b")


def test_the_death_of_an_earlier_life_is_ignored(tmp_path):
    made = core(tmp_path)
    joined(made)
    made.take([birth("a", boot="b2"), birth("a", online=False, boot="b1", reason="lost")], 1.0)
    assert made.devices["a"].online


def test_a_device_that_was_lost_is_asked_until_patience_ends(tmp_path):
    made = core(tmp_path, min_agents=2, rounds=None, quorum=0.5)
    _, _, base = joined(made)
    made.take([upload("c", 1, base), birth("c", online=False, reason="lost")], 1.0)
    said = made.take([upload(a, 1, base) for a in "ab"], 2.0)
    assert made.run_state.asked == AGENTS
    made.take([upload("a", 2, announced(said)[2]), upload("b", 2, announced(said)[2])], 200.0)
    made.take([], 400.0)
    assert made.run_state.asked == ("a", "b")


def test_an_answer_that_comes_with_the_end_of_its_round_does_not_count_in_the_next(tmp_path):
    made = core(tmp_path, min_agents=2)
    _, _, base = joined(made)
    envelope = wire.Envelope(t="report", fleet="orchard", agent="a", round=1)
    declines = wire.encode(envelope, {"refused": "too warm"})
    place = made.topics.parse(made.topics.report("a"))
    made.take([(place, declines), upload("c", 1, base)], 1.0)
    # With b gone nobody is missing, so the round is cut; what a sent all the same is in it.
    made.take([upload("a", 1, base), birth("b", online=False, reason="left")], 2.0)
    assert [agent for _, agent, _ in made.journal.cut(1).counted] == ["a", "c"]
    assert (made.run_state.number, made.run_state.answered) == (2, frozenset())


class Stubborn:
    """A recipe's `fuse` that fails in the rounds it is told, and counts how often it was asked."""

    def __init__(self, recipe, failing, error):
        self.recipe, self.failing, self.error, self.calls = recipe, failing, error, []

    def __call__(self, turn, total, before):
        self.calls.append(turn.round)
        if turn.round in self.failing:
            raise self.error
        return self.recipe.fuse(turn, total, before)


def stubborn(folder, failing=(1,), error=None, **rules):
    made = core(folder, **rules)
    expected_now = made.terms.expected
    error = error or np.linalg.LinAlgError("Singular matrix")
    fuse = Stubborn(expected_now.recipe, failing, error)
    recipe = replace(expected_now.recipe, fuse=fuse)
    made.terms = replace(made.terms, expected=replace(expected_now, recipe=recipe))
    made.aggregator = Aggregator(made.journal, made.terms.expected, made.terms.hyper, 0)
    made.intake.aggregator = made.aggregator
    return made, fuse


@pytest.mark.parametrize(
    "error",
    [
        np.linalg.LinAlgError("Singular matrix"),
        FusionError("a total weight of 2147483648 is too large to be added exactly"),
        ValueError("two\nlines"),
        MemoryError(),
    ],
)
def test_a_cut_that_cannot_be_fused_is_written_down_and_the_run_goes_on(tmp_path, error):
    made, fuse = stubborn(tmp_path, error=error)
    _, _, base = joined(made)
    said = made.take([upload(a, 1, base) for a in AGENTS], 1.0)
    assert receipts(said) == [(a, "accepted", "") for a in AGENTS]
    assert announced(said) == (2, "open", base)
    assert type(error).__name__ in made.journal.cut(1).failed
    assert "\n" not in made.journal.cut(1).failed
    assert (made.base_round, made.state.base) == (1, base)
    assert (fuse.calls, made.run_state.number) == ([1], 2)
    made.take([upload(a, 2, base) for a in AGENTS], 2.0)
    assert (made.journal.cut(2).failed, made.base_round) == ("", 2)


def test_a_failed_cut_is_tried_again_by_no_restart_and_no_replay(tmp_path):
    made, fuse = stubborn(tmp_path)
    _, _, base = joined(made)
    made.take([upload(a, 1, base) for a in AGENTS], 1.0)
    made.journal.close()
    again, fuse = stubborn(tmp_path)
    again.recover(5.0)
    assert (fuse.calls, again.run_state.number, again.base_round) == ([], 2, 1)
    again.take([upload(a, 2, base) for a in AGENTS], 6.0)
    assert [state.verdict for state in replayed(agreed(again).journal)] == ["same"] * 3


def test_totals_that_cannot_be_joined_are_a_failed_cut_too(tmp_path):
    made = core(tmp_path)
    _, _, base = joined(made)

    def close(devices):
        raise FusionError("prototypes: a sum in one upload, a bag in another")

    made.aggregator.close = close
    said = made.take([upload(a, 1, base) for a in AGENTS], 1.0)
    assert announced(said) == (2, "open", base)
    assert "a bag in another" in made.journal.cut(1).failed
    assert [upload.cut for upload in made.journal.uploads(1)] == [1, 1, 1]


def test_a_fusion_that_ends_the_process_is_given_up_after_some_starts(tmp_path):
    class Killed(BaseException):
        pass

    made, _ = stubborn(tmp_path, error=Killed())
    _, _, base = joined(made)
    with pytest.raises(Killed):
        made.take([upload(a, 1, base) for a in AGENTS], 1.0)
    for _ in range(ATTEMPTS):
        made.journal.close()
        made, fuse = stubborn(tmp_path, error=Killed())
        with pytest.raises(Killed):
            made.recover(2.0)
    made.journal.close()
    made, fuse = stubborn(tmp_path, error=Killed())
    made.recover(2.0)
    assert fuse.calls == []
    assert (made.run_state.number, made.base_round) == (2, 1)
    assert "the process ended" in made.journal.cut(1).failed


def test_bytes_that_were_lost_cost_their_upload_alone(tmp_path):
    made = core(tmp_path, rounds=1)
    _, _, base = joined(made)
    made.take([upload(a, 1, base) for a in "ab"], 1.0)
    with made.journal.commit():
        made.journal._db.execute("UPDATE uploads SET blob=999 WHERE agent='a'")
    made.journal.close()
    again = core(tmp_path, rounds=1)
    joined(again)
    again.take([upload("c", 1, base)], 1.0)
    assert again.journal.cut(1).counted == ((1, "b", 1), (1, "c", 1))
    assert again.state.sha256 == expected(again, 1, ("b", "c")).sha256


def test_an_announcement_is_as_short_for_thousands_of_devices_as_for_ten(tmp_path):
    sizes = []
    for many in (10, 5000):
        made = core(tmp_path / str(many), share=0.9)
        names = [f"{n:05}".ljust(63, "x") for n in range(many)]
        made.recover(0.0)
        said = made.take([birth(name) for name in names], 0.0)
        (message,) = [p for p in said if p.topic == made.topics.round]
        envelope, body, _ = wire.decode(message.payload)
        lots = read_lots(body, made.terms.expected.contract, envelope.round)
        assert body["participants"] == []
        assert made.run_state.asked == tuple(filter(lots.ask, names))
        assert len(made.run_state.asked) == 0.9 * many
        sizes.append(len(message.payload))
    assert max(sizes) < 2048
    assert abs(sizes[0] - sizes[1]) <= 8
    said = made.take([], 61.0)
    assert made.run_state.phase == "collecting"
    assert sum(len(json.dumps(event)) for event in made.journal.events()) < 4000


def test_a_run_of_rounds_without_exchange_says_that_it_is_done_or_paused(tmp_path):
    made = core(tmp_path, method="local", rounds=2)
    _, _, base = joined(made)

    def answers(number):
        return made.take([upload(a, number, base, {}, method="local") for a in AGENTS], number)

    made.pause(True, 0.5)
    assert announced(answers(1))[:2] == (1, "paused")
    assert announced(made.pause(False, 1.5))[:2] == (2, "open")
    assert announced(answers(2))[:2] == (2, "done")


def test_a_fusion_that_fails_on_what_was_let_in_ends_no_run(tmp_path):
    made = core(tmp_path)
    *_, base = joined(made)

    def singular(turn, total, before):
        return np.linalg.inv(np.zeros((2, 2)))

    broken = replace(made.terms.expected.recipe, fuse=singular)
    made.terms = replace(made.terms, expected=replace(made.terms.expected, recipe=broken))
    said = answers(made, 1, AGENTS, 1.0, base)
    assert {status for _, status, _ in receipts(said)} == {"accepted"}
    assert announced(said) == (2, "open", base)
    assert made.journal.cut(1).failed == "LinAlgError: Singular matrix"


def test_a_birth_that_claims_more_samples_than_can_be_is_one_without(tmp_path):
    made = core(tmp_path)
    made.recover(0.0)
    for samples, written in ((10**9, None), (-1, None), (10**8, 10**8)):
        made.take([birth("a", samples=samples)], 1.0)
        assert made.devices["a"].online
        assert made.devices["a"].about.get("samples") == written


def answers(made, number, agents, now, base=None):
    base = base or made.journal.round(number).base
    return made.take([upload(a, number, base) for a in agents], now)


def test_a_device_that_is_gone_without_a_will_blocks_no_round_for_ever(tmp_path):
    """Three of four below the quorum of 0.8, as when one's password was changed."""
    made = core(tmp_path, min_agents=4, quorum=0.8, timeout=60.0, silence=120.0)
    joined(made, (*AGENTS, "d"))
    answers(made, 1, AGENTS, 1.0)
    made.take([], 61.0)
    assert (made.run_state.number, made.run_state.missing) == (1, ["d"])
    made.take([], 119.0)
    assert made.run_state.number == 1
    said = made.take([], 121.0)
    assert [agent for _, agent, _ in made.journal.cut(1).counted] == list(AGENTS)
    assert announced(said)[1] == "closed"  # three are fewer than the four that are due
    made.take([birth("d", boot="b2")], 130.0)
    assert made.run_state.asked == (*AGENTS, "d")


def test_one_that_is_gone_is_asked_again_as_soon_as_it_is_heard(tmp_path):
    made = core(tmp_path, min_agents=2, quorum=0.5, silence=120.0, rounds=None)
    joined(made, AGENTS)
    answers(made, 1, "ab", 1.0)
    made.take([], 61.0)
    answers(made, 2, "ab", 62.0)
    made.take([], 121.0)
    assert (made.run_state.number, made.run_state.asked) == (3, ("a", "b"))
    report = wire.encode(wire.Envelope("report", "orchard", agent="c", round=2), {})
    made.take([(made.topics.parse(made.topics.report("c")), report)], 122.0)
    answers(made, 3, "ab", 123.0)
    assert (made.run_state.number, made.run_state.asked) == (4, AGENTS)


def test_one_that_is_not_asked_may_be_silent_for_days(tmp_path):
    made = core(tmp_path, min_agents=3, silence=120.0)
    joined(made, AGENTS)
    made.pause(True, 0.5)
    answers(made, 1, AGENTS, 1.0)
    made.pause(False, 1e6)
    assert (made.run_state.number, made.run_state.asked) == (2, AGENTS)


def test_one_whose_will_came_is_waited_for_no_longer_than_it_is_asked(tmp_path):
    made = core(tmp_path, min_agents=2, timeout=1000.0)
    joined(made, AGENTS)
    made.take([birth("c", online=False, reason="lost")], 1.0)
    answers(made, 1, "ab", 2.0)
    made.take([], 100.0)
    assert made.run_state.number == 1
    made.take([], 102.0)
    assert (made.run_state.number, made.run_state.asked) == (2, ("a", "b"))


def test_chunks_of_a_large_upload_are_signs_of_life(tmp_path):
    made = core(tmp_path, min_agents=3, timeout=60.0, silence=120.0)
    joined(made, AGENTS)
    answers(made, 1, "ab", 1.0)
    for now in (100.0, 119.0, 150.0):
        made.heard(["c", "x"], now)
        made.take([], now)
    assert (made.run_state.number, made.run_state.missing) == (1, ["c"])


def test_ghosts_that_were_born_and_never_heard_again_do_not_stop_a_round(tmp_path):
    made = core(tmp_path, min_agents=1, timeout=60.0, silence=120.0, devices=1000)
    ghosts = [f"ghost-{n}" for n in range(3000)]
    joined(made, ghosts[:500])
    made.take([birth(a) for a in (*AGENTS, *ghosts)], 0.5)
    assert len(made.devices) == 1000
    assert made.allowance.dropped["device"] > 2000
    answers(made, 1, "ab", 1.0)
    made.take([], 61.0)
    assert made.run_state.number == 1
    answers(made, 1, "c", 62.0)
    made.take([], 122.0)
    assert made.run_state.number == 2
    assert not set(made.run_state.asked) & set(ghosts[:500])
    # There is room for a new device, where one that is gone was.
    made.take([birth("new")], 123.0)
    assert "new" in made.devices
    assert len(made.devices) == 1000
    assert made.journal.agents().keys() == made.devices.keys()


def test_of_many_births_the_newest_counts_though_it_waits(tmp_path):
    made = core(tmp_path)
    joined(made)
    commits = []
    real = made.journal.commit
    made.journal.commit = lambda: commits.append(1) or real()
    for n in range(100):
        made.take([birth("a", boot=f"b{n}", samples=n)], 1.0)
    assert made.allowance.dropped == {"birth": 70}
    assert made.devices["a"].about["samples"] == 29
    assert len(commits) == 30
    made.take([], 3.0)
    assert made.devices["a"].about["samples"] == 99
    made.take([birth("a", boot="b99", samples=99)], 5.0)
    assert len(commits) == 31  # what is known is not written again


def report_of(made, agent, body, round=0):
    envelope = wire.Envelope("report", "orchard", agent=agent, round=round)
    return made.topics.parse(made.topics.report(agent)), wire.encode(envelope, body)


def test_a_report_of_thousands_of_measures_or_of_no_shares_ends_and_stalls_nothing(tmp_path):
    made = core(tmp_path)
    joined(made)
    many = {f"measure-{n}": 0.5 for n in range(15_000)}
    made.take([report_of(made, "a", {"accuracy": many})], 1.0)
    huge = {"head": 1e308, "flag": True, "prototype": 0.5}
    made.take([report_of(made, agent, {"accuracy": huge}) for agent in "bc"], 1.0)
    assert len(made.devices["a"].accuracy) == 16
    assert len(made.accuracy()) == 16
    assert made.accuracy()["prototype"] == 0.5
    assert made.allowance.dropped == {"measure": 1}
    made.take([report_of(made, "a", {"refused": ["x"] * 50_000}, 1)], 1.0)
    assert made.devices["a"].declines == ""


def test_a_flood_of_uploads_that_are_refused_costs_one_device_its_answers_for_a_while(tmp_path):
    made = core(tmp_path)
    _, _, base = joined(made)
    topic, honest = upload("a", 1, base)
    said = made.take([(topic, b"junk")] * 100, 1.0)
    assert (len(receipts(said)), made.allowance.dropped) == (60, {"refusal": 40})
    assert receipts(made.take([upload("b", 1, base)], 1.0)) == [("b", "accepted", "")]
    assert receipts(made.take([(topic, honest)], 1.5)) == []  # its device sends it again
    assert receipts(made.take([(topic, honest)], 9.0)) == [("a", "accepted", "")]


@pytest.mark.parametrize("ahead", [1, 1 << 19])
def test_what_is_decoded_ahead_is_judged_in_the_order_it_came(tmp_path, monkeypatch, ahead):
    monkeypatch.setattr("coordinator.core.AHEAD", ahead)
    made = core(tmp_path)
    _, _, base = joined(made)
    topic, honest = upload("a", 1, base)
    said = made.take([(topic, b"junk"), (topic, honest), upload("a", 1, base, parts_of("b", 1))], 1)
    assert sorted(receipts(said)) == [
        ("a", "accepted", ""),
        ("a", "conflict", "conflict"),
        ("a", "refused", "bad-bytes"),
    ]


def test_a_flood_of_reports_and_offers_is_counted_and_not_decoded(tmp_path):
    made = core(tmp_path)
    joined(made)
    made.take([report_of(made, "a", {"accuracy": {"head": 0.5}})] * 1000, 1.0)
    offer = made.topics.parse(made.topics.upload("a", 0))
    said = made.take([(offer, b"junk")] * 100, 1.0)
    assert made.allowance.dropped == {"report": 800, "offer": 80}
    assert len(receipts(said)) == 20


def test_a_birth_that_cannot_be_used_is_counted_and_never_answered(tmp_path):
    made = core(tmp_path)
    made.recover(0.0)
    place = made.topics.parse(made.topics.state("a"))
    said = made.take([(place, b"junk"), birth("b", wire=[2]), birth("c", wire="x" * 200)], 0.0)
    assert (receipts(said), made.devices) == ([], {})
    assert made.intake.counters.refused == {"bad-bytes": 1, "wire-version": 2}


@pytest.mark.parametrize(("epoch", "noted"), [(1, None), (9, "9"), (2**63 - 1, None)])
def test_an_epoch_that_a_device_follows_is_noted_if_it_can_be(tmp_path, epoch, noted):
    made = core(tmp_path)
    made.recover(0.0)
    place = made.topics.parse(made.topics.state("a"))
    for heard in (1, epoch):  # of the second all but the epoch is known
        envelope = wire.Envelope("birth", "orchard", run="r1", epoch=heard, agent="a", boot="b")
        made.take([(place, wire.encode(envelope, {"online": True, "wire": [1]}))], 0.0)
    assert made.journal.meta(HEARD_EPOCH) == noted


def test_held_uploads_too_old_to_be_fused_are_late_and_their_bytes_go(tmp_path):
    made = core(tmp_path, quorum=0.6, staleness=1, rounds=None)
    _, _, base = joined(made)
    bases = [base]
    for number in (1, 2, 3):
        made.take([upload(a, number, bases[-1]) for a in "ab"], 100.0 * number)
        if number == 2:  # older than what its device sends for the round that is open
            made.take([upload("c", 1, base)], 200.0)
            made.take([upload("c", 2, bases[-1])], 200.0)
        made.take([], 100.0 * number + 61)
        bases.append(made.state.base)
    kept = made.journal.upload(1, "c")
    assert (kept.status, kept.blob, kept.cut) == ("late", None, None)
    assert made.journal.uploads(None, "held") == []
    assert receipts(made.take([upload("c", 1, base)], 500.0)) == [("c", "late", "")]


def test_a_birth_is_as_much_work_among_thousands_as_among_ten(tmp_path):
    work = {}
    for many in (10, 2000):
        made = core(tmp_path / str(many), min_agents=many + 10)
        made.recover(0.0)
        made.take([birth(f"device-{n:05}") for n in range(many)], 0.0)
        again = birth("device-00003", boot="b2")
        made.take([birth("device-00004", boot="b2")], 0.1)
        work[many] = [
            steps(partial(made.take, [said], 0.2))
            for said in (again, birth("stranger"), birth("device-00005", online=False))
        ]
    for few, more in zip(work[10], work[2000], strict=True):
        assert more < 1.1 * few


def test_a_turn_without_news_asks_nobody_where_no_round_could_open(tmp_path):
    work = {}
    for many in (10, 2000):
        made = core(tmp_path / str(many), min_agents=many)
        made.recover(0.0)
        made.pause(True, 0.0)
        made.take([birth(f"device-{n:05}") for n in range(many)], 0.0)
        made.take([], 0.1)
        work[many] = steps(partial(made.take, [], 0.2))
        said = made.pause(False, 0.3)
        assert announced(said)[:2] == (1, "open")
    assert work[2000] <= 1.1 * work[10]


def test_the_deviation_is_the_librarys():
    numbers = [0.25, 0.5, 0.5, 0.75, 1.0, 0.1]
    assert deviation(numbers) == pytest.approx(pstdev(numbers), rel=1e-12)
    assert deviation([0.5]) == 0
    assert deviation(numbers) == deviation(numbers[::-1])
