"""Phases of training: seeds by name, rates by round, and an end that is said when it diverges."""

import pytest

from edge_agent.training.context import settle
from protofleet.errors import DataError
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


def test_training_that_diverges_says_so_and_what_to_do(small_lab):
    from dataclasses import replace

    config = small_lab()
    setup = prepare(replace(config, training=replace(config.training, lr=1e30)))
    with pytest.raises(
        DataError, match="agent-00, round 1: training diverged; try a smaller learning rate"
    ):
        sent(agents(setup, 1)[0], 1)
