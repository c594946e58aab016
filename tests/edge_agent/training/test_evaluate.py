"""How well a device classifies: among its own classes and among all."""

import numpy as np
import pytest

from edge_agent.training.context import settle
from edge_agent.training.evaluate import Tally
from simulators.run.setup import prepare


@pytest.fixture
def setup(small_lab):
    made = prepare(small_lab())
    settle(made.contract.numerics)
    return made


def agents(setup, count=2):
    context = setup.context()
    return [setup.agent(shard, context) for shard in setup.partition.shards[:count]]


def sent(agent, rounds=2):
    agent.receive(0, {}, {})
    for round in range(1, rounds + 1):
        parts = agent.work(round)
    return parts["prototypes"]


def test_evaluators_answer_among_own_classes_or_all(setup):
    agent = agents(setup, 1)[0]
    sent(agent)
    agent.receive(2, {"prototypes": agent.work(3)["prototypes"]}, {})
    found = agent.evaluate(2)["test"]
    assert set(found) == {"prototype", "prototype_all_classes", "head", "head_own_classes"}
    own = np.unique(agent.data.train.y.numpy())
    assert found["head"].total.sum() == len(agent.data.test)
    assert (found["head_own_classes"].correct[np.setdiff1d(np.arange(10), own)] == 0).all()


def test_without_samples_there_is_no_accuracy():
    assert Tally(np.zeros(3, int), np.zeros(3, int)).accuracy is None
