"""A rollout as a table: groups open by what was proven, and nothing that fails gets further."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.rollouts.staging import (
    Conclude,
    GoBack,
    Halt,
    OpenGroup,
    Presence,
    Reports,
    Resume,
    Return,
    RolloutState,
    StagingRules,
    Stall,
    counts,
    salted,
    step,
)
from protofleet.exchange.rollouts import RolloutReport, TrialFigures

NAMES = [f"camera-{n:02}" for n in range(40)]
RULES = StagingRules(1, (0.05, 0.5, 1.0), error=0.02, trigger=0.9, patience=60.0)
RULES = replace(RULES, salt=salted(RULES, NAMES))
GROUPS = [[name for name in NAMES if RULES.group_of(name) == g] for g in range(3)]


def reports(names, step, **more):
    return Reports({name: RolloutReport("b" * 64, 1, step, **more) for name in names})


def play(*events, rules=RULES, state=None, now=0.0):
    state, actions = state or RolloutState(), []
    for event in events:
        state, more = step(rules, state, event, now)
        actions += more
    return state, actions


def there(names=NAMES):
    return Presence(frozenset(names))


def test_groups_open_one_after_the_other_when_enough_proved_it():
    first, second, third = GROUPS
    state, actions = play(there(), reports(first, "trying"), reports(first, "running"))
    assert (state.phase, state.group, actions) == ("open", 0, [])
    state, actions = play(reports(first, "proven"), state=state)
    assert (state.group, actions) == (1, [OpenGroup(1)])
    most = second[: -(-9 * len(second) // 10)]
    state, actions = play(reports(most[:-1], "proven"), state=state)
    assert actions == []
    state, actions = play(reports(most[-1:], "proven"), state=state)
    assert actions == [OpenGroup(2)]
    state, actions = play(reports(third, "proven"), state=state)
    assert (state.phase, actions) == ("done", [Conclude()])
    # a late device reports, and changes nothing
    assert play(there([*NAMES, "late"]), reports(["late"], "refused"), state=state)[1] == []


def test_one_of_forty_that_fails_is_more_than_two_percent():
    first = GROUPS[0]
    state, actions = play(there(), reports(first[:1], "refused", words="12 points less"))
    assert state.phase == "back"
    assert actions == [GoBack(state.words)]
    assert state.words.startswith("1 of 2 devices failed, at most 2 % may: ")
    assert f"{first[0]}: 12 points less" in state.words
    # and nothing opens it again
    assert play(Resume(), reports(NAMES, "proven"), there(), state=state) == (
        replace(state, members=play(reports(NAMES, "proven"), state=state)[0].members),
        [],
    )


def test_errors_are_a_share_of_all_and_not_of_the_quickest():
    rules = StagingRules(1, (1.0,), error=0.1)
    state, actions = play(there(), reports(NAMES[:4], "refused"), rules=rules)
    assert (state.phase, actions) == ("open", [])
    state, _ = play(reports(NAMES[4:5], "refused"), rules=rules, state=state)
    assert state.phase == "back"


def test_a_silent_device_hangs_nobody_and_is_no_success():
    rules = replace(RULES, error=0.6)
    one, other = GROUPS[0]
    state, _ = play(there(), reports([one, other], "running"), rules=rules)
    away = [name for name in NAMES if name != other]
    state, _ = play(there(away), rules=rules, state=state)
    assert counts(rules, state, 0.0)[0].silent == 1
    state, actions = play(reports([one], "proven"), rules=rules, state=state)
    assert actions == [OpenGroup(1)]
    # where fewer may fall silent, all is taken back, and it is said who
    state, _ = play(there(), reports([one, other], "running"))
    state, actions = play(there(away), state=state)
    assert f"{other}: silent since it was running" in state.words
    assert actions == [GoBack(state.words)]
    # one that was away and never began is not missed
    state, actions = play(there(away), reports([one], "proven"))
    assert actions == [OpenGroup(1)]


def test_a_device_that_takes_too_long_has_failed():
    state, _ = play(there(), reports(GROUPS[0], "running"))
    state, actions = play(there(), state=state, now=61.0)
    assert "overdue: running for too long" in state.words
    assert actions == [GoBack(state.words)]


def test_nobody_there_stalls_the_first_group_and_no_later_one():
    nobody = [name for name in NAMES if name not in GROUPS[0]]
    state, actions = play(there(nobody), now=1.0)
    assert actions == []
    state, actions = play(there(nobody), state=state, now=61.0)
    assert actions == [Stall("nobody of group 1 answered in 60 s")]
    assert state.phase == "halted"
    state, _ = play(Resume(), state=state, now=70.0)
    state, actions = play(there(), reports(GROUPS[0], "proven"), state=state, now=71.0)
    assert actions == [OpenGroup(1)]
    others = [name for name in NAMES if name not in GROUPS[1]]
    state, actions = play(there(others), state=state, now=132.0)
    assert actions == [OpenGroup(2)]


def test_by_hand_it_halts_goes_on_and_goes_back():
    state, _ = play(there(), reports(GROUPS[0], "running"), Halt("by anna"))
    assert (state.phase, state.words) == ("halted", "by anna")
    state, actions = play(reports(GROUPS[0], "proven"), state=state)
    assert actions == []  # nothing opens meanwhile
    state, actions = play(Resume(), state=state)
    assert actions == [OpenGroup(1)]
    # what runs may still fall sick while it is halted
    halted, _ = play(Halt(""), state=state)
    assert play(reports(GROUPS[0], "refused"), state=halted)[0].phase == "back"
    state, actions = play(Return("by anna"), state=state)
    assert actions == [GoBack("by anna")]
    assert play(Return("again"), state=state)[1] == []


def test_what_no_device_sees_the_sum_does():
    rules = StagingRules(1, (1.0,), error=0.5, margin=0.03)
    figures = TrialFigures(samples=40, before=36, after=34, better=1, worse=3)
    state, actions = play(there(), reports(NAMES[:4], "running", figures=figures), rules=rules)
    assert actions == []
    state, _ = play(reports(NAMES, "running", figures=figures), rules=rules, state=state)
    assert state.words == "5.0 points less accurate on 1600 samples of all that tried it"


def test_classes_are_for_all_once_the_first_group_proved_them():
    rules = replace(RULES, whole=False, groups=(0.2, 1.0))
    first = [name for name in NAMES if rules.group_of(name) == 0]
    state, actions = play(there(), reports(first, "proven"), rules=rules)
    assert (state.phase, actions) == ("done", [Conclude()])


@pytest.mark.parametrize(("share", "fleet", "size"), [(0.05, 40, 2), (0.05, 3, 1), (0.5, 10, 5)])
def test_the_first_group_is_somebody(share, fleet, size):
    names = [f"pupil-{n}" for n in range(fleet)]
    for number in range(1, 30):
        rules = StagingRules(number, (share, 1.0))
        rules = replace(rules, salt=salted(rules, names))
        assert sum(rules.group_of(name) == 0 for name in names) == size


def test_canaries_are_in_the_first_group_and_may_be_all_of_it():
    rules = replace(RULES, canaries=frozenset(["camera-07"]))
    assert rules.group_of("camera-07") == 0
    rules = StagingRules(1, (0.001, 1.0), canaries=frozenset(["camera-07"]))
    rules = replace(rules, salt=salted(rules, NAMES))
    assert [name for name in NAMES if rules.group_of(name) == 0] == ["camera-07"]


STEPS = st.sampled_from(["trying", "running", "proven", "refused", "back"])
EVENTS = st.one_of(
    st.builds(reports, st.sets(st.sampled_from(NAMES), min_size=1, max_size=6), STEPS),
    st.builds(there, st.sets(st.sampled_from(NAMES))),
    st.just(Halt("")),
    st.just(Resume()),
)


@given(st.lists(st.tuples(EVENTS, st.floats(0, 50)), max_size=25))
def test_no_group_opens_that_the_one_before_did_not_prove(history):
    state, now = RolloutState(), 0.0
    for event, seconds in history:
        now += seconds
        before = state
        state, actions = step(RULES, state, event, now)
        for action in actions:
            if isinstance(action, OpenGroup | Conclude):
                count = counts(RULES, state, now)[before.group]
                patient = now - before.opened <= RULES.patience
                waited_for = count.judged - count.silent
                nobody = not patient and before.group > 0
                assert nobody or count.proven >= 0.9 * waited_for > 0
        if before.phase == "back":
            assert (state.phase, actions) == ("back", [])
