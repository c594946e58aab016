"""Rounds as a table: every order of events leads to the same closing, and never to a wrong one."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.rounds.machine import (
    Answered,
    Cut,
    Ended,
    Excused,
    Fused,
    Open,
    Paused,
    PutOff,
    RoundRules,
    RunState,
    Tick,
    step,
)

RULES = RoundRules(lambda number, who: who, rounds=2, min_agents=2, quorum=0.5, timeout=10.0)
EVENTS = st.one_of(
    st.builds(Tick, st.sets(st.sampled_from("abcd")).map(lambda s: tuple(sorted(s)))),
    st.builds(Answered, st.frozensets(st.sampled_from("abcd"), min_size=1)),
    st.builds(Excused, st.sampled_from("abcd")),
    st.just(Fused()),
    st.builds(Paused, st.booleans()),
)


def after(*events, rules=RULES, at=None, now=0.0):
    at, actions = at or RunState(), []
    for event in events:
        at, more = step(rules, at, event, now)
        actions += more
    return at, actions


def answered(*agents):
    return Answered(frozenset(agents))


def opened(who=("a", "b", "c"), rules=RULES):
    return after(Tick(who), rules=rules)[0]


def test_a_round_opens_when_enough_devices_are_there():
    assert after(Tick(("a",)))[0].phase == "waiting"
    at, actions = after(Tick(("a", "b")))
    assert (at.phase, at.number, actions) == ("collecting", 1, [Open(1, ("a", "b"))])


def test_a_round_closes_when_all_have_answered_and_not_at_the_quorum():
    at, actions = after(answered("a"), answered("b"), Tick(()), at=opened())
    assert (at.phase, actions) == ("collecting", [])
    assert after(answered("c"), at=at)[1] == [Cut(1, "complete")]
    assert after(answered("a", "b", "c"), at=opened())[1] == [Cut(1, "complete")]


def test_who_is_excused_is_not_waited_for():
    assert after(answered("a"), Excused("b"), answered("c"), at=opened())[1] == [Cut(1, "complete")]
    assert after(Excused("a"), Excused("b"), Excused("c"), at=opened())[1] == []  # nothing to fuse


def test_at_the_deadline_the_quorum_decides():
    at, actions = after(answered("a"), Tick(()), at=opened(), now=10.0)
    assert actions == [PutOff(1, ("b", "c"))]
    assert at.deadline == 20.0
    assert after(answered("b"), Tick(()), at=at, now=20.0)[1] == [Cut(1, "deadline")]


def test_a_round_without_any_upload_is_never_cut():
    rules = RoundRules(lambda number, who: who, quorum=0.0, timeout=1.0)
    assert after(Tick(()), at=opened(rules=rules), rules=rules, now=5.0)[1] == [
        PutOff(1, ("a", "b", "c"))
    ]


def test_an_asynchronous_round_is_a_number_of_uploads():
    rules = RoundRules(lambda number, who: who, cut=2, timeout=10.0)
    at = opened(rules=rules)
    assert at.asked == ()
    assert after(answered("x"), answered("y"), at=at, rules=rules)[1] == [Cut(1, "complete")]
    assert after(answered("x"), Tick(()), at=at, rules=rules, now=10.0)[1] == [Cut(1, "deadline")]


def test_paused_the_open_round_runs_to_its_end_and_no_other_opens():
    at, _ = after(
        Paused(True),
        answered("a"),
        answered("b"),
        answered("c"),
        Fused(),
        Tick(("a", "b")),
        at=opened(),
    )
    assert (at.phase, at.number) == ("waiting", 1)
    assert after(Paused(False), Tick(("a", "b")), at=at)[1] == [Open(2, ("a", "b"))]


def test_the_last_round_ends_the_run():
    at = RunState("closing", 2)
    assert after(Fused(), Tick(("a", "b")), at=at)[0].phase == "done"
    assert after(Ended(), Tick(("a", "b")), at=opened())[0].phase == "done"


@given(st.lists(st.tuples(EVENTS, st.floats(0, 3)), max_size=40))
def test_whatever_happens_rounds_open_in_order_and_close_once_with_a_reason(happenings):
    at, now, actions = RunState(), 0.0, []
    for event, waited in happenings:
        now += waited
        before = at
        at, more = step(RULES, at, event, now)
        for action in more:
            if isinstance(action, Cut):
                held = before.answered | (event.agents if isinstance(event, Answered) else set())
                gone = before.excused | ({event.agent} if isinstance(event, Excused) else set())
                full = set(before.asked) <= held | gone
                assert held
                assert full or (
                    now >= before.deadline and len(held) >= math.ceil(0.5 * len(before.asked))
                )
        actions += [a for a in more if not isinstance(a, PutOff)]
    kinds = [(type(a).__name__, a.number) for a in actions]
    assert kinds == [("Open", 1), ("Cut", 1), ("Open", 2), ("Cut", 2)][: len(kinds)]


@pytest.mark.parametrize("phase", ["waiting", "closing", "done"])
def test_answers_outside_an_open_round_change_nothing(phase):
    at = RunState(phase, 1, ("a",))
    assert step(RULES, at, answered("a"), 99.0) == (at, [])


def test_a_round_opens_no_sooner_than_told_after_the_one_before():
    rules = RoundRules(lambda number, who: who, every=10.0)
    at, _ = step(rules, RunState(), Tick(("a",)), 100.0)
    at, _ = step(rules, at, Answered(frozenset("a")), 101.0)
    at, _ = step(rules, at, Fused(), 102.0)
    assert step(rules, at, Tick(("a",)), 109.0) == (at, [])
    assert step(rules, at, Tick(("a",)), 110.0)[1] == [Open(2, ("a",))]
