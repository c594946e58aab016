"""A fake agent forgets nothing: whatever was different in its past shows in all that follows."""

from hashlib import sha256

import numpy as np
import pytest

from coordinator.uploads.fuse import start_state
from edge_agent.protocol.actions import Train
from edge_agent.protocol.events import RoundSpec
from edge_agent.records import HeldState
from edge_agent.store import Store
from edge_agent.worker.ipc import DataSurvey, SurveyData, TaskDone, TaskFailed, Work
from protofleet import registry, wire
from protofleet.contract import Contract, Input
from protofleet.exchange.state import GlobalState
from protofleet.recipe import Turn
from protofleet.settings.fields import to_plain
from protofleet.values.prototypes import Prototypes
from simulators.faults.fake_agent import FakeAgent, FakeTraining, prototypes

CONTRACT = Contract("trial", "r", 7, ("a", "b", "c"), Input("vector", (4,)), embedding=8)
RECIPE = registry.load("fedproto")
SPEC = RoundSpec("r", "fedproto", to_plain(CONTRACT), to_plain(RECIPE.hyper()))
BOOT = "b" * 16
OTHER = {"prototypes": Prototypes([0], np.ones((1, 8), np.float32), [1])}


def drawn(agent="a", first=None, rounds=(1, 2, 3), last_base=2):
    """The digest of the last upload of a life in which each round got the state before it."""
    device = FakeAgent(agent, prototypes(CONTRACT))
    for round in rounds:
        shared = first if round == 1 and first is not None else {}
        device.receive(last_base if round == rounds[-1] else round - 1, shared, {})
        parts = device.work(round)
    return wire.digest(parts)


def test_the_same_life_sends_the_same():
    assert drawn() == drawn()


@pytest.mark.parametrize(
    "other",
    [
        {"agent": "b"},
        {"first": OTHER},
        {"rounds": (1, 3)},
        {"rounds": (1, 2, 2, 3)},
        {"last_base": 1},
    ],
)
def test_whatever_was_different_shows(other):
    assert drawn(**other) != drawn()


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path)
    store.take_over(BOOT)
    yield store
    store.close()


@pytest.fixture
def start(store):
    """The start state, held as the daemon holds what came over the wire."""
    state = start_state(RECIPE, Turn(CONTRACT, RECIPE.hyper(), 0))
    envelope = wire.Envelope(
        "global", "trial", run="r", epoch=1, round=0, method="fedproto", base=state.base
    )
    message = wire.encode(envelope, state.shared, CONTRACT.wire)
    store.hold("global", HeldState("r", 0, state.base, message))
    return state


def ordered(store, round, base, base_round=0):
    """What a fake training process answers to the order to train this round."""
    training = FakeTraining("a", BOOT, store, lambda: None, prototypes)
    training.order(Work(Train("r", round, base_round, base, False, False, SPEC), 1))
    (answer,) = training.answers()
    return answer


def test_it_commits_what_the_schedule_s_agent_would_send(store, start):
    assert isinstance(ordered(store, 1, start.base), TaskDone)
    device = FakeAgent("a", prototypes(CONTRACT))
    device.receive(0, start.shared, {})
    body = wire.encode_parts(device.work(1), CONTRACT.wire, RECIPE.precision)
    assert store.outcomes("r") == [(1, sha256(body).hexdigest(), "waiting")]
    assert store.checkpoint("r").body == device.history


def test_it_goes_on_from_its_checkpoint_and_not_from_nothing(store, start):
    for round in (1, 2):
        assert isinstance(ordered(store, round, start.base), TaskDone)
    device = FakeAgent("a", prototypes(CONTRACT))
    for round in (1, 2):
        device.receive(0, start.shared, {})
        device.work(round)
    assert store.checkpoint("r").body == device.history


def test_a_state_that_is_not_here_may_be_tried_again_and_a_wrong_one_not(store, start):
    absent = ordered(store, 1, "f" * 64)
    assert isinstance(absent, TaskFailed)
    other = GlobalState(OTHER)
    envelope = wire.Envelope(
        "global", "trial", run="r", epoch=1, round=0, method="fedproto", base="e" * 64
    )
    store.hold("global", HeldState("r", 0, "e" * 64, wire.encode(envelope, other.shared)))
    wrong = ordered(store, 1, "e" * 64)
    assert isinstance(wrong, TaskFailed)
    assert (absent.scope, wrong.scope) == ("again", "round")
    assert store.checkpoint("r") is None


def test_it_has_a_sample_and_no_class_to_show(store):
    training = FakeTraining("a", BOOT, store, lambda: None, prototypes)
    training.order(SurveyData())
    assert training.answers() == [DataSurvey((), 1)]
    assert training.answers() == []
