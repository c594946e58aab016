"""The device: what it does depends on its own name, data and seeds, and on nothing around it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from edge_agent.training.context import settle
from protofleet.errors import CheckpointError, TrainingDiverged
from protofleet.values.prototypes import Tensors
from simulators.run.rounds import LabOptions, run
from simulators.run.setup import prepare
from tests.edge_agent.learning import agents, sent


def test_sharing_a_process_changes_nothing(setup):
    alone = sent(agents(setup)[1])
    first, second = agents(setup)
    sent(first)
    torch.rand(3)
    assert sent(second) == alone


def test_devices_start_apart_or_together_as_the_contract_says(setup, small_lab):
    one, two = agents(setup)
    assert not torch.equal(
        one._committed.weights["head.out.weight"], two._committed.weights["head.out.weight"]
    )
    one, two = agents(prepare(small_lab(common_start="yes")))
    assert torch.equal(
        one._committed.weights["head.out.weight"], two._committed.weights["head.out.weight"]
    )


def test_samples_for_a_picture_are_spread_over_all_of_its_test_samples(setup):
    (agent,) = agents(setup, 1)
    everything, labels = agent.embed(10_000)
    assert len(labels) == len(agent.data.test)
    few, some = agent.embed(7)
    rows = [i * len(labels) // 7 for i in range(7)]
    np.testing.assert_allclose(few, everything[rows], atol=1e-6)
    np.testing.assert_array_equal(some, labels[rows])


def test_a_checkpoint_continues_to_the_same_upload(setup):
    straight, stopped, fresh = agents(setup, 1)[0], agents(setup, 1)[0], agents(setup, 1)[0]
    want = sent(straight, 3)
    sent(stopped, 2)
    fresh.restore(stopped.checkpoint())
    fresh.receive(0, {}, {})
    assert fresh.work(3)["prototypes"] == want


def test_averaged_weights_are_the_moving_mean_and_training_goes_on_from_the_last_ones(small_lab):
    plain, steady = (
        agents(prepare(small_lab(averaging=a, common_start="yes")), 1)[0] for a in (0, 3)
    )
    seen = [plain._committed.weights["head.out.weight"].clone()]
    for round in range(1, 6):
        for agent in (plain, steady):
            agent.receive(round - 1, {}, {})
            agent.work(round)
        seen.append(plain._committed.weights["head.out.weight"].clone())
        assert torch.equal(steady._committed.weights["head.out.weight"], seen[-1])
    mean = seen[0]
    for rounds, now in enumerate(seen[1:], 1):
        share = 2 / (1 + min(3, rounds + 1))
        mean = (1 - share) * mean + share * now
    shown = steady.network().head.out.weight.detach()
    assert torch.allclose(shown, mean, atol=1e-6)
    assert not torch.allclose(shown, seen[-1], atol=1e-4)


def test_a_checkpoint_keeps_the_average(small_lab):
    setup = prepare(small_lab(averaging=3))
    straight, stopped, fresh = (agents(setup, 1)[0] for _ in range(3))
    want = sent(straight, 3)
    sent(stopped, 2)
    fresh.restore(stopped.checkpoint())
    fresh.receive(0, {}, {})
    assert fresh.work(3)["prototypes"] == want
    assert fresh.checkpoint() == straight.checkpoint()


def test_only_the_state_that_is_trained_on_leaves_a_trace(small_lab):
    setup = prepare(small_lab("fedavg"))
    settle(setup.contract.numerics)
    seen, blind = agents(setup, 1)[0], agents(setup, 1)[0]
    first, last = ({"weights": agent.work(1)["weights"]} for agent in agents(setup, 2))
    seen.receive(1, first, {})
    seen.evaluate(1)
    for agent in (seen, blind):
        agent.receive(2, last, {})
    assert seen.checkpoint() == blind.checkpoint() == agents(setup, 1)[0].checkpoint()
    want = blind.work(3)
    assert seen.work(3) == want
    seen.receive(2, last, {})
    assert seen.work(4) == blind.work(4)


def test_a_checkpoint_of_another_network_is_refused(setup):
    with pytest.raises(CheckpointError, match="of another network"):
        agents(setup, 1)[0].restore({"": {"weights": Tensors({"w": np.zeros(3, np.float32)})}})


def test_a_network_that_answers_in_no_numbers_says_so_and_what_to_do(small_lab):
    agent = agents(prepare(small_lab()), 1)[0]
    saved = agent.checkpoint()
    arrays = dict(saved[""]["weights"].arrays)
    # Finite weights, whose products are not.
    huge = {name: np.full_like(a, 3e38) for name, a in arrays.items() if "fc" in name}
    agent.restore({"": {**saved[""], "weights": Tensors(arrays | huge)}})
    agent.receive(0, {}, {})
    with (
        agent._in_network() as learner,
        pytest.raises(TrainingDiverged, match="not finite; try a smaller learning rate"),
    ):
        learner.features()


def test_a_device_without_a_sample_says_nothing_and_classifies_as_the_fleet(small_lab):
    whole = prepare(small_lab("fleet", rounds=2))
    first, *others = whole.partition.shards
    shards = (replace(first, train=first.train[:0]), *others)
    setup = replace(whole, partition=replace(whole.partition, shards=shards))
    outcome = run(setup, LabOptions(), lambda row: None)
    assert outcome.rows[-1].accuracy["prototype"] > 0.5
