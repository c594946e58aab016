"""grow: the extractor learns under a head that stays, and takes the old one's place only where
samples that it was not trained on say so.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from coordinator.uploads.fuse import start_state
from edge_agent.training.phases import run_phases
from protofleet import wire
from protofleet.contract import Training
from protofleet.errors import FusionError
from protofleet.exchange import learned
from protofleet.exchange.state import Upload
from protofleet.methods import grow
from protofleet.recipe import Turn
from protofleet.statistics import contribution as contributions
from protofleet.statistics import counts
from protofleet.statistics.adoption import Standard, Verdict
from protofleet.statistics.held_out import FOLDS, Samples
from simulators.run.partitions import PartitionOptions
from simulators.run.rounds import one_round
from simulators.run.setup import prepare
from simulators.run.workers import Here

HYPER = grow.Hyper(train=2, minimum=1, smooth=1e9)
LAST = HYPER.train + 4  # the round of the first verdict


def setup_of(small_lab, backbone="mlp-small", noise=0.0, **training):
    """Digits on a network that is drawn at random; a share of their labels may be drawn, too."""
    config = small_lab("fedavg", backbone=backbone, agents=3, partition="iid")
    dealt = PartitionOptions(limit=600 if noise else 1700)
    setup = prepare(replace(config, training=Training(**training), partition=dealt))
    rng = np.random.default_rng(3)
    noisy, y = rng.random(len(setup.data.y)) < noise, setup.data.y.copy()
    y[noisy] = rng.permutation(y[noisy])
    data = replace(setup.data, y=y)
    return replace(setup, data=data, recipe=grow.recipe, hyper=HYPER)


def states_of(setup, crew, last=LAST):
    """The state after each round, by default up to the first verdict."""
    states = [start_state(setup.recipe, Turn(setup.contract, setup.hyper, 0))]
    crew.receive(0, states[0])
    for round in range(1, last + 1):
        states.append(one_round(setup, crew, states[-1], round)[0])
    return states


def weights_of(state):
    return state.shared["weights"].arrays


def part_of(state, name):
    return wire.digest({name: state.shared[name]})


def same(one, other):
    return all(np.array_equal(one[name], other[name]) for name in one)


def test_a_round_is_for_one_thing():
    stages = [grow.stage(Turn(None, HYPER, round)) for round in range(1, 11)]
    exchange, training = ["contribute", "count"], ["train", "train"]
    assert stages == exchange + training + exchange + training + exchange


def test_an_extractor_that_learns_something_is_adopted(small_lab):
    setup = setup_of(small_lab, lr=0.05, local_epochs=8)
    states = states_of(setup, Here(setup, setup.agents))
    first, trained, last = states[2], states[LAST - 2], states[LAST]
    # The head stays while the weights move; then there is one of the new features' sums.
    assert part_of(trained, "head") == part_of(first, "head")
    assert not same(weights_of(trained), weights_of(first))
    assert all(name.startswith("backbone.") for name in weights_of(trained))
    verdict = learned.verdict(last.shared)
    assert verdict.is_better
    assert verdict.sentence.startswith("adopted: of ")
    assert same(weights_of(last), weights_of(trained))
    assert part_of(last, "head") != part_of(first, "head")
    assert learned.MEANS not in last.shared


def test_one_that_learned_its_samples_by_heart_is_refused(small_lab):
    setup = setup_of(small_lab, "mlp", noise=0.5, lr=0.7, local_epochs=30)
    crew = Here(setup, setup.agents)
    states = states_of(setup, crew, LAST - 1)
    total, fooled = states[-1], None
    for agent in crew.agents.values():
        with agent._in_network() as me:
            seen = me.features()
            own = contributions.contribution(seen.high, seen.labels, grow.fleet.GRID)
            mine = counts.count(
                learned.moments(total.shared), Samples.of(seen.high, seen.labels, own)
            )
            fooled = mine if fooled is None else fooled.plus(mine)
    last = one_round(setup, crew, total, LAST)[0]
    verdict = learned.verdict(last.shared)
    assert not verdict.is_better
    assert verdict.sentence.startswith("refused: of ")
    for name in ("weights", "head", "calibration"):
        assert part_of(last, name) == part_of(states[2], name)
    # Folds of all samples, most of which it was trained on, would have said that it is better.
    assert Verdict(verdict.before, Standard.of(fooled)).is_better


def test_spared_samples_are_the_same_ones_whatever_lies_beside_them(small_lab):
    setup = setup_of(small_lab)
    agent = setup.agent(setup.partition.shards[0], setup.context())
    with agent._in_network() as me:
        whole = me.folds(FOLDS)
        me.data = replace(
            me.data, train=type(me.data.train)(me.data.train.x[3:], me.data.train.y[3:])
        )
        assert np.array_equal(me.folds(FOLDS), whole[3:])
    assert 0.1 < (whole == grow.SPARED).mean() < 0.3


def test_no_gradient_sees_a_spared_sample(small_lab):
    setup = setup_of(small_lab, lr=0.05)
    states = states_of(setup, Here(setup, setup.agents))[:4]
    trained = []
    for noise in (0, 1):
        agent = setup.agent(setup.partition.shards[0], setup.context())
        agent.receive(2, states[2].shared, {})
        turn = Turn(setup.contract, HYPER, 3, agent.name)
        with agent._in_network() as me:
            phases = grow.train(turn, me, states[2].shared)
            spared = torch.from_numpy(np.flatnonzero(me.folds(FOLDS) == grow.SPARED))
            me.data.train.x[spared] = me.data.train.x[spared] ^ noise
            run_phases(me.stepper, phases, me.data.train, turn, "train")
            trained.append(me.weights("backbone").arrays)
    assert same(*trained)


def test_what_is_not_of_the_stage_is_refused():
    turn = Turn(None, HYPER, 2)
    for parts in ({"weights": None}, {}):
        with pytest.raises(FusionError, match="the fleet is to count in round 2"):
            grow.fold(turn, Upload("a", 2, "", parts), 1)
    with pytest.raises(FusionError, match="the fleet is to train in round 3"):
        grow.fold(Turn(None, HYPER, 3), Upload("a", 3, "", {"counts": None}), 1)
