"""A device's own part of a rollout: whatever comes in whatever order, it ends on what holds."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.trials.progress import (
    MOST_STARTS,
    ChannelState,
    Course,
    Facts,
    FetchCandidate,
    ProveCandidate,
    RolloutStanding,
    TrialOutcome,
    TryCandidate,
    followed,
    next_deed,
    proved,
    started,
    tried,
    verdict,
)
from edge_agent.updates.uses import UseCount
from protofleet.exchange.published import About
from protofleet.exchange.rollouts import RolloutPlan, TrialFigures, TrialTerms

OLD, NEW = "a" * 64, "b" * 64
PLAN = RolloutPlan(3, NEW, "extractor:e", "open", 1.0, terms=TrialTerms(soak=10.0))
FACTS = Facts(PLAN, "camera", OLD)


def at(step, **more):
    return RolloutStanding(3, step, before=OLD, **more)


def test_from_a_plan_to_proof():
    me, deed = next_deed(RolloutStanding(), FACTS)
    assert (me.step, me.before, deed) == ("trying", OLD, None)
    assert next_deed(me, FACTS) == (me, FetchCandidate())
    assert next_deed(me, replace(FACTS, here=True)) == (me, TryCandidate())
    me = tried(me, TrialOutcome(figures=TrialFigures(pictures=9, alike=8)))
    assert (me.step, me.figures.alike) == ("running", 8)
    on_it = replace(FACTS, in_use=NEW, running_for=9.0)
    assert next_deed(me, on_it) == (me, None)
    assert next_deed(me, replace(on_it, running_for=10.0)) == (me, ProveCandidate())
    # where somebody asks it, answers are due, too, or three times the time
    used = replace(on_it, running_for=29.0, uses=UseCount(OLD, 1, 0, 500))
    assert next_deed(me, used)[1] is None
    assert next_deed(me, replace(used, running_for=30.0))[1] == ProveCandidate()
    used = replace(used, running_for=10.0, uses=UseCount(NEW, 1, 0, 10))
    assert next_deed(me, used)[1] == ProveCandidate()
    me = proved(me, "", 10)
    assert (me.step, me.figures.answers, me.report(NEW).runs) == ("proven", 10, NEW)
    assert next_deed(me, on_it) == (me, None)


def test_who_is_not_in_waits_and_a_canary_does_not():
    outside = replace(PLAN, share=0.0)
    assert next_deed(RolloutStanding(), replace(FACTS, plan=outside)) == (
        RolloutStanding(3, before=OLD),
        None,
    )
    named = replace(outside, canaries=("camera",))
    assert next_deed(RolloutStanding(), replace(FACTS, plan=named))[0].step == "trying"


@pytest.mark.parametrize("step", [None, "trying"])
def test_halted_nobody_begins_and_who_runs_it_goes_on(step):
    halted = replace(FACTS, plan=replace(PLAN, phase="halted"), here=True)
    assert next_deed(at(step), halted) == (at(step), None)
    soaked = replace(halted, in_use=NEW, running_for=99.0)
    assert next_deed(at("running"), soaked)[1] == ProveCandidate()


@pytest.mark.parametrize("step", ["trying", "running", "proven"])
def test_taken_back_it_returns(step):
    back = replace(FACTS, plan=replace(PLAN, phase="back"), in_use=NEW)
    me, deed = next_deed(at(step), back)
    assert (me.step, deed) == ("back", None)
    stable = ChannelState(About("extractor:e", ("x",), OLD), "s")
    assert followed(me, back, stable, None, "extractor:e") == Course("stable", OLD)


def test_a_crash_after_adopting_is_taken_up():
    assert next_deed(at("trying"), replace(FACTS, in_use=NEW))[0].step == "running"
    # a record that was lost, or a bundle that is here already
    assert next_deed(RolloutStanding(), replace(FACTS, in_use=NEW))[0].step == "running"


def test_what_starts_and_never_answers_is_given_up():
    sick = replace(FACTS, in_use=NEW, uses=UseCount(NEW, 5, 3, 40))
    for step in ("running", "proven"):
        me, _ = next_deed(at(step), sick)
        assert (me.step, me.reason) == ("refused", "sick")
        assert me.words == "what classifies here started 3 times and never answered"
    # long after the rollout that is a matter of its own
    done = replace(sick, plan=replace(PLAN, phase="done"))
    assert next_deed(at("proven"), done)[0].step == "proven"
    me = at("running")
    for _ in range(MOST_STARTS + 1):
        me = started(me)
    assert next_deed(me, replace(FACTS, in_use=NEW))[0].step == "refused"
    assert started(at("proven")) == at("proven")


def test_another_plan_begins_anew():
    newer = replace(FACTS, plan=replace(PLAN, number=4))
    for step in ("refused", "back", "proven"):
        assert next_deed(at(step), newer)[0].step == "trying"


STABLE_OLD = ChannelState(About("extractor:e", ("x",), OLD), "s")
STABLE_NEW = ChannelState(About("extractor:e", ("x",), NEW), "s")
OTHER = ChannelState(About("extractor:f", ("x",), NEW), "c")


def test_whose_word_counts():
    running = replace(FACTS, in_use=NEW)
    # another precision of the same extractor goes by what all go by
    course = followed(at("running"), running, STABLE_OLD, None, "extractor:e")
    assert course == Course("stable", NEW)
    # another extractor by the canaries' channel, until all have it
    other = replace(running, plan=replace(PLAN, lineage="extractor:f"))
    course = followed(at("running"), other, STABLE_OLD, OTHER, "extractor:e")
    assert course == Course("canary", NEW)
    assert followed(at("running"), other, STABLE_OLD, None, "") == Course("own", NEW)
    # who has refused what all are to have stays with what it has, and goes on hearing
    me = at("refused")
    assert followed(me, FACTS, STABLE_NEW, None, "extractor:e") == Course("stable", OLD)
    assert followed(me, FACTS, STABLE_NEW, None, "extractor:d") == Course("own", OLD)
    # who gave it up returns to what it had
    assert followed(me, running, STABLE_NEW, None, "extractor:e") == Course("own", OLD)
    # a new device has nothing until it tried it
    fresh = replace(FACTS, in_use="")
    assert followed(RolloutStanding(), fresh, STABLE_NEW, None, "") == Course("own", "")


def test_classes_are_another_state_of_the_same_bundle():
    plan = replace(PLAN, bundle=OLD, state="c")
    canary = ChannelState(About("extractor:e", ("x", "y"), OLD), "c")
    facts = replace(FACTS, plan=plan)
    me, _ = next_deed(RolloutStanding(), facts)
    assert me.step == "trying"
    assert followed(me, facts, STABLE_OLD, canary, "extractor:e") == Course("stable", OLD)
    assert followed(at("running"), facts, STABLE_OLD, canary, "") == Course("canary", OLD)
    done = replace(facts, plan=replace(plan, phase="done"))
    assert followed(at("proven"), done, STABLE_OLD, canary, "") == Course("stable", OLD)


def test_what_lets_a_candidate_in():
    terms = TrialTerms(margin=0.03, slower=2.0, larger=2.0)
    same = {"seconds": (0.01, 0.011), "bytes": (1 << 28, 1 << 28)}
    good = TrialFigures(100, 95, 100, 0, 90, 90, 3, 3)
    passed = verdict(terms, good, same)
    assert (passed.reason, round(passed.figures.slower, 2)) == ("", 1.1)
    worse = replace(good, after=80, better=2, worse=12)
    assert verdict(terms, worse, same).words == "10.0 points less accurate on 100 samples"
    slow = {**same, "seconds": (0.01, 0.05)}
    assert verdict(terms, good, slow).words == "50 ms an answer, 10 before"
    large = {**same, "bytes": (1 << 28, 1 << 30)}
    assert verdict(terms, good, large).words == "1024 MB of memory, 256 before"
    # a tenth of a millisecond is nobody's loss, however many times it is
    tiny = {**same, "seconds": (0.0001, 0.001)}
    assert not verdict(terms, good, tiny).reason


PLANS = st.builds(
    replace,
    st.just(PLAN),
    number=st.integers(1, 3),
    phase=st.sampled_from(["open", "halted", "back", "done"]),
    share=st.sampled_from([0.0, 1.0]),
)


@given(st.lists(st.tuples(PLANS, st.booleans(), st.booleans(), st.booleans()), max_size=20))
def test_it_never_runs_what_did_not_pass_here(history):
    """Plans, crashes and verdicts in any order: what is in use is what passed, or the old one."""
    me, in_use, here = RolloutStanding(), OLD, False
    for newest, passes, crashes, is_stable in history:
        plan = replace(newest, number=max(newest.number, me.number))
        stable = STABLE_NEW if is_stable and plan.phase in ("open", "done") else STABLE_OLD
        facts = replace(FACTS, plan=plan, in_use=in_use, here=here, running_for=99.0)
        me, deed = next_deed(me, facts)
        if isinstance(deed, FetchCandidate):
            here = True
        elif isinstance(deed, TryCandidate):
            me = tried(me, TrialOutcome("" if passes else "worse", "words"))
            if me.step == "running":
                in_use, here = NEW, False
                me = replace(me, step="trying") if crashes else me
        course = followed(me, replace(facts, in_use=in_use), stable, None, "extractor:e")
        if course.bundle == OLD:
            in_use = OLD
        if plan.phase == "back":
            assert in_use == OLD
        if me.step == "refused":
            assert in_use == OLD
