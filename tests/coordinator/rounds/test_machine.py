"""Rounds as a table: every order of events leads to the same closing, and never to a wrong one."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.rounds.machine import (
    Answered,
    Counted,
    Cut,
    Excused,
    Fuse,
    Fused,
    Open,
    Paused,
    PutOff,
    Rest,
    Resumed,
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
    st.builds(Fused, st.just(("a", "b"))),
    st.builds(Paused, st.booleans()),
)


def after(*events, rules=RULES, at=None, now=0.0):
    at, actions = at or RunState(), []
    for event in events:
        at, more = step(rules, at, event, now)
        actions += more
    return at, actions


def closes(number, reason):
    return [Cut(number, reason), Fuse(number)]


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
    assert after(answered("c"), at=at)[1] == closes(1, "complete")
    assert after(answered("a", "b", "c"), at=opened())[1] == closes(1, "complete")


def test_who_is_excused_is_not_waited_for():
    assert after(answered("a"), Excused("b"), answered("c"), at=opened())[1] == closes(
        1, "complete"
    )
    assert after(Excused("a"), Excused("b"), Excused("c"), at=opened())[1] == []  # nothing to fuse


def test_at_the_deadline_the_quorum_decides():
    at, actions = after(answered("a"), Tick(()), at=opened(), now=10.0)
    assert actions == [PutOff(1, ("b", "c"))]
    assert at.deadline == 20.0
    assert after(answered("b"), Tick(()), at=at, now=20.0)[1] == closes(1, "deadline")


def test_who_is_gone_is_neither_waited_for_nor_part_of_the_quorums_number():
    at = opened(("a", "b", "c", "d", "e"))
    at, actions = after(answered("a"), Tick((), frozenset("cde")), at=at)
    assert (at.missing, actions) == (["b"], [])
    assert after(Tick((), frozenset("bcde")), at=at)[1] == closes(1, "complete")
    assert after(Tick((), frozenset("cde")), at=at, now=10.0)[1] == closes(1, "deadline")
    back, actions = after(Tick((), frozenset()), at=at, now=10.0)
    assert actions == [PutOff(1, ("b", "c", "d", "e"))]
    at, _ = after(Tick((), frozenset("c")), at=back, now=15.0)
    assert after(answered("b"), at=at, now=20.0)[1] == closes(1, "deadline")


def test_a_round_without_any_upload_is_never_cut():
    rules = RoundRules(lambda number, who: who, quorum=0.0, timeout=1.0)
    assert after(Tick(()), at=opened(rules=rules), rules=rules, now=5.0)[1] == [
        PutOff(1, ("a", "b", "c"))
    ]


def test_an_asynchronous_round_is_a_number_of_uploads():
    rules = RoundRules(lambda number, who: who, cut=2, timeout=10.0)
    at = opened(rules=rules)
    assert at.asked == ()
    assert after(answered("x"), answered("y"), at=at, rules=rules)[1] == closes(1, "complete")
    assert after(answered("x"), Tick(()), at=at, rules=rules, now=10.0)[1] == closes(1, "deadline")


def test_paused_the_open_round_runs_to_its_end_and_no_other_opens():
    at, _ = after(
        Paused(True),
        answered("a"),
        answered("b"),
        answered("c"),
        Fused(("a", "b")),
        Tick(("a", "b")),
        at=opened(),
    )
    assert (at.phase, at.number) == ("waiting", 1)
    assert after(Paused(False), Tick(("a", "b")), at=at)[1] == [Open(2, ("a", "b"))]


def test_the_last_round_ends_the_run():
    at = RunState("closing", 2)
    done, actions = after(Fused(("a", "b")), Tick(("a", "b")), at=at)
    assert (done.phase, actions) == ("done", [Rest(2)])


@given(st.lists(st.tuples(EVENTS, st.floats(0, 3)), max_size=40))
def test_whatever_happens_rounds_open_in_order_and_close_once_with_a_reason(events):
    at, now, actions = RunState(), 0.0, []
    for event, pause in events:
        now += pause
        before = at
        at, more = step(RULES, at, event, now)
        for action in more:
            if isinstance(action, Cut):
                answers = before.answered | (event.agents if isinstance(event, Answered) else set())
                excused = before.excused | ({event.agent} if isinstance(event, Excused) else set())
                full = set(before.asked) <= answers | excused
                assert answers
                assert full or (
                    now >= before.deadline and len(answers) >= math.ceil(0.5 * len(before.asked))
                )
        actions += [a for a in more if isinstance(a, (Open, Cut))]
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
    at, _ = step(rules, at, Fused(("a",)), 102.0)
    assert step(rules, at, Tick(("a",)), 109.0) == (at, [])
    assert step(rules, at, Tick(("a",)), 110.0)[1] == [Open(2, ("a",))]


def test_the_next_round_opens_with_the_end_of_the_one_before_where_it_can():
    at = RunState("closing", 1)
    assert step(RULES, at, Fused(("a", "b")), 0.0)[1] == [Open(2, ("a", "b"))]
    assert step(RULES, at, Fused(("a",)), 0.0) == (RunState("waiting", 1), [Rest(1)])


def test_what_comes_while_a_round_closes_counts_in_no_other():
    at, _ = after(answered("a", "b", "c"), answered("a"), Excused("b"), Tick(("a",)), at=opened())
    assert at.phase == "closing"
    at, _ = step(RULES, at, Fused(("a", "b")), 1.0)
    assert (at.phase, at.answered, at.excused) == ("collecting", frozenset(), frozenset())


def test_uploads_of_earlier_rounds_fill_a_round_but_cut_it_only_with_the_next_event():
    rules = RoundRules(lambda number, who: who, cut=2, timeout=10.0)
    at, actions = after(Counted(frozenset("xy")), at=opened(rules=rules), rules=rules)
    assert (at.answered, actions) == (frozenset("xy"), [])
    assert after(Tick(()), at=at, rules=rules)[1] == closes(1, "complete")


@pytest.mark.parametrize(
    ("phase", "number", "becomes", "actions"),
    [
        ("waiting", 0, "waiting", []),
        ("waiting", 1, "waiting", []),
        ("waiting", 2, "done", []),
        ("collecting", 1, "collecting", []),
        ("closing", 1, "closing", [Fuse(1)]),
    ],
)
def test_a_run_goes_on_where_the_journal_says_whatever_was_before(phase, number, becomes, actions):
    there = Resumed(number, ("a",), frozenset("a"), True, phase)
    for before in (RunState(), RunState("done", 2), opened()):
        at, more = step(RULES, before, there, 50.0)
        assert (at.phase, at.number, at.answered, at.paused) == (
            becomes,
            number,
            frozenset("a"),
            True,
        )
        assert more == actions
        assert at.deadline == (60.0 if phase == "collecting" else math.inf)
