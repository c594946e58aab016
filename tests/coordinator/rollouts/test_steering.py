"""A rollout with its journal: what is said to the fleet, and what a new life goes on with."""

import numpy as np
import pytest

from coordinator.config import LedgerSection, RolloutSection
from coordinator.rollouts import summary
from protofleet.errors import UsageError
from protofleet.exchange import published
from protofleet.exchange.published import About, Bank
from protofleet.exchange.rollouts import (
    RolloutReport,
    TrialFigures,
    read_plan,
    write_report,
)
from protofleet.values.prototypes import Prototypes
from protofleet.wire import Envelope
from tests.contributing import LINEAGE, WIDTH, arrived, message
from tests.coordinator import made
from tests.coordinator.made import TOPICS, banks, birth, ledger, packed_bundle

AGENTS = [f"camera-{n:02}" for n in range(20)]


def no_class(lineage=LINEAGE):
    return Bank(About(lineage, ()), Prototypes([], np.zeros((0, WIDTH))))


@pytest.fixture
def fleet(tmp_path):
    return through(ledger(tmp_path / "data"))


def through(it):
    """The first rollout, a freeze, is over."""
    it.take([birth(agent) for agent in AGENTS], 0.0)
    say(it, AGENTS, "proven", 0.5)
    assert (it.rollouts.number, it.rollouts.state.phase) == (1, "done")
    return it


def start(it, tmp_path, name="new", bank=None, **terms):
    file = packed_bundle(tmp_path / f"{name}.pfb", bank or no_class(), round=name)
    plain = {"groups": [0.1, 0.5, 1.0], "patience": 60.0, **terms}
    document, said = it.rollout("start", {"file": str(file), "by": "anna", **plain}, 1.0)
    return document, said


def plan_of(said):
    plans = [read_plan(p.payload) for p in said if p.topic == TOPICS.rollout]
    return plans[-1] if plans else None


def say(it, agents, step, now=2.0, number=None, **more):
    number = it.rollouts.number if number is None else number
    runs = it.rollouts.terms.bundle if step in ("running", "proven") else ""
    report = RolloutReport(runs, number, step, **more)
    arrivals = [
        (
            TOPICS.parse(TOPICS.reported(agent)),
            write_report(report, Envelope("reported", "orchard", agent=agent)),
        )
        for agent in agents
    ]
    return it.take(arrivals, now)


def group(it, number):
    return [agent for agent in AGENTS if it.rollouts.rules.group_of(agent) == number]


def topic_payloads(said, topic):
    return [p.payload for p in said if p.topic == topic]


def test_from_the_first_group_to_the_whole_fleet(fleet, tmp_path):
    before = fleet.catalogue.versions[-1].bundle
    document, said = start(fleet, tmp_path, canaries=["camera-03"])
    plan = plan_of(said)
    assert (document["phase"], document["group"], plan.share) == ("open", 1, 0.1)
    assert (plan.canaries, plan.lineage, plan.bundle) == (
        ("camera-03",),
        LINEAGE,
        document["bundle"],
    )
    (slip,) = topic_payloads(said, TOPICS.bundle("canary"))
    assert slip
    assert len(group(fleet, 0)) == 2  # one drawn, and the canary: a tenth of twenty
    assert not banks(said)  # what all run has not changed
    # its bytes are here for whoever asks
    assert fleet.journal.file(fleet.rollouts.terms.book.parcel)
    assert plan_of(say(fleet, group(fleet, 0), "running")) is None
    said = say(fleet, group(fleet, 0), "proven")
    assert plan_of(said).share == 0.5
    said = say(fleet, group(fleet, 1), "proven", 5.0)
    # the last group: from now on it is the fleet's
    assert plan_of(said).share == 1.0
    assert banks(said)[-1].about.bundle == document["bundle"]
    assert topic_payloads(said, TOPICS.bundle("canary")) == [b""]
    assert fleet.catalogue.versions[-1].bundle == document["bundle"]
    said = say(fleet, group(fleet, 2), "proven", 6.0)
    assert plan_of(said).phase == "done"
    # and by hand all of it goes back
    document, said = fleet.rollout("back", {"by": "anna"}, 7.0)
    assert (document["phase"], document["words"]) == ("back", "by anna")
    assert banks(said)[-1].about.bundle == before
    assert fleet.catalogue.versions[-1].why.startswith("rollout 2 back to ")


def test_what_fails_in_the_first_group_reaches_nobody_else(fleet, tmp_path):
    start(fleet, tmp_path)
    one, *_ = group(fleet, 0)
    say(fleet, group(fleet, 0), "running")
    said = say(fleet, [one], "refused", reason="worse", words="12 points less accurate")
    plan = plan_of(said)
    assert (plan.phase, plan.share) == ("back", 0.1)
    assert topic_payloads(said, TOPICS.bundle("canary")) == [b""]
    assert not banks(said)
    document = summary.status(fleet.rollouts, 3.0)
    assert "12 points less accurate" in document["words"]
    assert [d["words"] for d in document["devices"] if d["words"]] == ["12 points less accurate"]
    steps = summary.history(fleet.journal.rollouts, 2, 100)["steps"]
    assert [s["step"] for s in steps if not s["agent"]] == ["started", "back"]
    assert {s["agent"] for s in steps if s["step"] == "running"} == set(group(fleet, 0))
    # another one may begin
    assert start(fleet, tmp_path, "newer")[0]["rollout"] == 3


def test_a_new_life_goes_on_where_the_journal_is(fleet, tmp_path):
    start(fleet, tmp_path)
    say(fleet, group(fleet, 0), "proven")
    one, *others = group(fleet, 1)
    say(fleet, [one], "running")
    fleet.journal.close()
    again = ledger(tmp_path / "data")
    rollouts = again.rollouts
    assert (rollouts.number, rollouts.state.phase, rollouts.state.group) == (2, "open", 1)
    assert rollouts.state.members[one].report.step == "running"
    said = again.greetings()
    assert plan_of(said).share == 0.5
    # what is retained at the broker comes again, and is no news
    again.take([birth(agent) for agent in AGENTS], 10.0)
    assert say(again, group(again, 0), "proven", 11.0) == []
    assert len(summary.history(again.journal.rollouts, 2, 100)["steps"]) == 5
    assert plan_of(say(again, [one, *others], "proven", 12.0)).share == 1.0


def test_halted_and_resumed_by_hand(fleet, tmp_path):
    start(fleet, tmp_path)
    document, said = fleet.rollout("halt", {"by": "anna"}, 2.0)
    assert (document["phase"], plan_of(said).phase) == ("halted", "halted")
    assert say(fleet, group(fleet, 0), "proven") == []
    document, said = fleet.rollout("resume", {}, 3.0)
    assert plan_of(said).share == 0.5
    with pytest.raises(UsageError, match="rollout 2 is open"):
        fleet.rollout("resume", {}, 3.0)


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"groups": [0.5, 0.1]}, "rising"),
        ({"groups": [0.0, 1.0]}, "more than 0 %"),
        ({"groups": []}, "rising"),
        ({"error": 2.0}, "shares"),
        ({"canaries": ["nobody"]}, "no device 'nobody'"),
        ({"bank": no_class("extractor:another")}, "knows no class yet"),
        ({"bank": no_class("run:x")}, "run:x"),
    ],
)
def test_what_cannot_be_begun(fleet, tmp_path, terms, words):
    with pytest.raises(UsageError, match=words):
        start(fleet, tmp_path, **terms)
    assert fleet.rollouts.number == 1


def test_one_at_a_time(fleet, tmp_path):
    start(fleet, tmp_path)
    with pytest.raises(UsageError, match="rollout 2 is under way"):
        start(fleet, tmp_path, "newer")
    made.frozen(fleet, no_class(), round="frozen")
    assert fleet.rollouts.number == 3
    phases = [r["phase"] for r in summary.every(fleet.journal.rollouts)["rollouts"]]
    assert phases == ["open", "back", "done"]


def test_a_bundle_of_another_extractor_has_classes_of_its_own_for_its_first_devices(
    fleet, tmp_path
):
    vectors = np.eye(2, WIDTH, dtype=np.float32)
    other = Bank(About("extractor:other", ("ant", "bee")), Prototypes(np.arange(2), vectors))
    _, said = start(fleet, tmp_path, bank=other)
    (payload,) = topic_payloads(said, TOPICS.proto("canary"))
    about = published.read(payload).bank.about
    assert (about.lineage, about.bundle) == ("extractor:other", fleet.rollouts.terms.bundle)
    assert "ant" in about.classes


def test_most_devices_that_refuse_take_a_freeze_back(fleet):
    before = fleet.catalogue.versions[-1].bundle
    made.frozen(fleet, no_class(), round="bad")
    assert fleet.catalogue.versions[-1].bundle != before
    said = say(fleet, AGENTS[:11], "refused", words="the self-test fails")
    assert banks(said)[-1].about.bundle == before
    assert fleet.rollouts.state.words.startswith("11 of 20 devices failed, at most 50 % may")


def test_reports_that_are_none_are_counted_and_change_nothing(fleet, tmp_path):
    start(fleet, tmp_path)
    place = TOPICS.parse(TOPICS.reported("camera-01"))
    other = write_report(RolloutReport("", 2, "proven"), Envelope("reported", "orchard", agent="x"))
    bad = write_report(
        RolloutReport("no digest", 2), Envelope("reported", "orchard", agent="camera-01")
    )
    for payload in (b"x", other, bad):
        fleet.take([(place, payload)], 2.0)
    assert fleet.allowance.dropped["reported"] == 3
    assert not fleet.rollouts.state.members
    # of a device that nobody knows, and of another rollout
    assert say(fleet, ["stranger"], "proven") == []
    assert say(fleet, ["camera-01"], "proven", number=9) == []
    assert not fleet.rollouts.state.members


def test_a_device_that_is_forgotten_is_in_no_rollout(fleet, tmp_path):
    start(fleet, tmp_path)
    one = group(fleet, 0)[0]
    say(fleet, [one], "trying")
    fleet.forget(one, 3.0)
    assert one not in fleet.rollouts.state.members
    assert fleet.journal.rollouts.members(2) == {}


# classes


@pytest.fixture
def cautious(tmp_path):
    rules = {"rules": LedgerSection(interval=0.0, settle=10.0)}
    section = RolloutSection(versions=0.2, settle=0.0, patience=60.0)
    it = ledger(tmp_path / "data", enrol="manual", rollout=section, **rules)
    return through(it)


def speak(it, agent, classes, now, seed=0):
    return it.take([arrived(agent, message(agent, classes, seed))], now)


def classes_of(said):
    return [bank.about.classes for bank in banks(said)]


def test_new_classes_are_shown_to_some_first_and_then_to_all(cautious):
    said = speak(cautious, "camera-01", ("apple", "plum"), 1.0)
    assert classes_of(said)  # the first there are: nobody has anything to lose
    known = banks(cautious.greetings())[-1]
    said = speak(cautious, "camera-02", ("apple", "plum"), 2.0, seed=5)
    assert banks(said)[-1] == known
    plan = plan_of(said)
    assert (plan.phase, plan.share, plan.bundle) == ("open", 0.2, known.about.bundle)
    (payload,) = topic_payloads(said, TOPICS.proto("canary"))[-1:]
    assert published.read(payload).digest == plan.state
    # what is newer by now waits
    said = speak(cautious, "camera-04", ("apple", "plum"), 3.0, seed=6)
    assert plan_of(said) is None
    first = [agent for agent in AGENTS if plan.includes(agent)]
    assert len(first) == 4
    said = say(cautious, first, "proven", 4.0)
    fresh = published.read(payload).bank
    assert banks(said)[-1] == fresh != known
    assert plan_of(said).state != plan.state  # and what waited is next


def test_a_bad_label_goes_no_further_and_what_let_it_in_is_taken_back(cautious):
    speak(cautious, "camera-01", ("apple", "plum"), 1.0)
    cautious.take([arrived("camera-02", message("camera-02", ("pier",), source="pier"))], 2.0)
    say(cautious, AGENTS, "proven", 2.5)  # its samples move the others' a little, too
    assert classes_of(cautious.greetings())[-1] == ("plum", "apple")
    _, said = cautious.classes("admit", {"name": "pier"}, 3.0)
    assert "pier" not in classes_of(said)[-1]
    said = cautious.take([], 4.0)
    plan = plan_of(said)
    (payload,) = topic_payloads(said, TOPICS.proto("canary"))
    assert "pier" in published.read(payload).bank.about.classes
    first = [agent for agent in AGENTS if plan.includes(agent)]
    figures = TrialFigures(samples=50, before=45, after=35, better=1, worse=11)
    worse = {"reason": "worse", "words": "20.0 points less accurate", "figures": figures}
    said = say(cautious, first[:2], "refused", 5.0, **worse)
    assert plan_of(said).phase == "back"
    assert classes_of(said)[-1] == ("plum", "apple")
    assert cautious.catalogue.versions[-1].why.startswith("classes of rollout 3 back: ")
    assert "pier" in cautious.catalogue.versions[-1].pending
    # it is not tried again by itself, and what an operator takes away is gone at once
    assert plan_of(cautious.take([], 9.0)) is None
    _, said = cautious.classes("remove", {"name": "plum"}, 10.0)
    assert classes_of(said)[-1] == ("apple",)


def test_what_all_have_outlives_the_process(cautious, tmp_path):
    speak(cautious, "camera-01", ("apple", "plum"), 1.0)
    known = banks(cautious.greetings())[-1]
    speak(cautious, "camera-02", ("apple", "plum"), 2.0, seed=5)
    cautious.journal.close()
    again = ledger(tmp_path / "data", enrol="manual", rollout=cautious.rollouts._section)
    assert banks(again.greetings())[-1] == known
    assert plan_of(again.greetings()).state
