"""From a configuration to what runs: data, networks, and what a device is tested on."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from protofleet.errors import DataError, UsageError
from simulators.run.rounds import LabOptions, run
from simulators.run.setup import prepare


def ended(config, **how):
    return run(prepare(config), LabOptions(**how), lambda row: None)


def test_mixed_backbones_meet_in_one_embedding(small_lab):
    outcome = ended(small_lab(backbone="mixed"))
    assert len(set(outcome.setup.backbones.values())) > 1
    assert outcome.state.shared["prototypes"].dim == outcome.setup.contract.embedding
    with pytest.raises(UsageError, match="one backbone for all"):
        prepare(small_lab("fedavg", backbone="mixed"))


def test_devices_take_the_networks_of_a_list_in_turn(small_lab):
    setup = prepare(small_lab(backbone="mlp-small,mlp5", resize="pool", embedding=48))
    kinds = ["mlp-small", "mlp5"]
    assert list(setup.backbones.values()) == [kinds[i % 2] for i in range(5)]
    assert (setup.contract.embedding, setup.contract.resize) == (48, "pool")
    assert run(setup, LabOptions(), lambda row: None).state.shared["prototypes"].dim == 48
    with pytest.raises(UsageError, match="one backbone for all"):
        prepare(small_lab("fedavg", backbone="mlp-small,mlp5"))
    with pytest.raises(UsageError, match="no backbone is called 'mpl5'; did you mean 'mlp5'"):
        prepare(small_lab(backbone="mlp-small,mpl5"))
    assert prepare(small_lab("fedavg", backbone="mlp5,mlp5")).contract.embedding == 64


def test_a_frozen_extractor_stays_as_it_is(small_lab):
    setup = prepare(small_lab(freeze=True, common_start="yes", rounds=1))
    agent = setup.agent(setup.partition.shards[0], setup.context())
    before = {
        name: array.copy() for name, array in agent.checkpoint()[""]["weights"].arrays.items()
    }
    agent.receive(0, {}, {})
    agent.work(1)
    after = agent.checkpoint()[""]["weights"].arrays
    changed = {k.partition(".")[0] for k in before if not np.array_equal(before[k], after[k])}
    assert changed == {"head"}


def test_data_that_does_not_suffice_is_said_in_one_line(small_lab):
    with pytest.raises(DataError) as caught:
        prepare(small_lab(partition="few-shot", agents=20))
    assert "\n" not in str(caught.value)


def test_a_bound_trains_on_what_all_hold_of_a_device_s_classes(small_lab):
    config = small_lab("local")
    own = prepare(config)
    bound = prepare(replace(config, run=replace(config.run, train_on="everyone")))
    everything = np.concatenate([shard.train for shard in own.partition.shards])
    for shard in own.partition.shards:
        classes = set(own.data.y[shard.train])
        rows = [row for row in everything if own.data.y[row] in classes]
        x, y = bound.training_samples(shard)
        assert sorted(map(bytes, x)) == sorted(bytes(own.data.x[row]) for row in rows)
        assert set(y) == classes
        assert len(own.training_samples(shard)[1]) == len(shard.train) < len(y)


def test_pixels_may_be_from_0_to_1(small_lab):
    config = small_lab("local", partition="iid")
    setup = prepare(replace(config, run=replace(config.run, pixels="unit")))
    assert (setup.contract.input.mean, setup.contract.input.std) == ((0.0,), (1.0,))
    assert prepare(config).contract.input.mean == (0.5,)
    with pytest.raises(UsageError, match="spiral has no pixels"):
        prepare(replace(config, run=replace(config.run, pixels="unit", dataset="spiral")))


def test_one_test_set_is_drawn_of_everybodys_as_each_sees_it(small_lab, monkeypatch):
    monkeypatch.setattr("simulators.run.setup.COMMON", 60)
    config = small_lab(partition="feature-skew", agents=3, rounds=1)
    setup = prepare(config)
    x, y = setup.common_samples()
    assert len(x) == len(y) == 60
    seen = [
        sum(bytes(one) in {bytes(own) for own in setup.test_samples(shard)[0]} for one in x)
        for shard in setup.partition.shards
    ]
    assert min(seen) > 5
    assert sum(seen) >= 60
    assert np.array_equal(prepare(config).common_samples()[1], y)
    everyone = replace(config, run=replace(config.run, test_on="everyone"))
    assert prepare(everyone).common_samples() is None
    last = run(setup, LabOptions(common=True), lambda row: None).rows[-1]
    assert last.common.keys() == last.accuracy.keys()
    # Drawn before anybody saw it, it changes nothing that was measured anyway.
    assert replace(last, common={}, seconds=0.0) == replace(ended(config).rows[-1], seconds=0.0)


def test_devices_are_tested_on_their_own_samples_or_all_on_the_same(small_lab):
    config = small_lab("feddistill", rounds=1)
    setup = prepare(replace(config, run=replace(config.run, test_on="everyone")))
    union = {row for shard in setup.partition.shards for row in shard.test}
    own, everyone = ended(config).rows[-1], run(setup, LabOptions(), lambda row: None).rows[-1]
    agents = [setup.agent(shard, setup.context()) for shard in setup.partition.shards]
    assert {len(agent.data.test) for agent in agents} == {len(union)}
    assert agents[0].data.test.y.equal(agents[-1].data.test.y)
    assert own.accuracy != everyone.accuracy


def test_samples_of_others_keep_the_look_that_they_have_there(small_lab):
    config = small_lab(partition="feature-skew", agents=3, test_on="everyone")
    setup = prepare(config)
    first = setup.agent(setup.partition.shards[0], setup.context()).data.test.x
    alone = prepare(replace(config, run=replace(config.run, test_on="own")))
    each = [alone.agent(shard, alone.context()).data.test.x for shard in alone.partition.shards]
    assert first.equal(torch.cat(each))
