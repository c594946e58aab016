"""IFCA: which model a device takes, and which devices are averaged."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from coordinator.uploads.fuse import fuse_round
from protofleet.contract import Contract, Input
from protofleet.errors import FusionError
from protofleet.exchange.state import GlobalState, Upload
from protofleet.methods import ifca
from protofleet.recipe import Features, Turn
from protofleet.toolbox.summaries import sample_count
from protofleet.values.prototypes import Tensors

CONTRACT = Contract("f", "r", 0, ("a", "b"), Input("vector", (1,)), 1)


class Device:
    """One number is all its weights: the logit of class 1. All its samples are of one class."""

    def __init__(self, agent="a", label=1):
        self.agent, self.samples, self.memory, self.weight = agent, 4, {}, 0.0
        self.labels = np.full(4, label)

    def load(self, weights):
        self.weight = float(weights["w"])

    def weights(self, *modules):
        return Tensors({"w": np.float32(self.weight)})

    def features(self):
        logits = np.tile(np.float32([0, self.weight]), (4, 1))
        return Features(np.zeros((4, 1), np.float32), logits, self.labels)


def turn(agent="a", round=1, clusters=2):
    return Turn(CONTRACT, ifca.Hyper(clusters=clusters), round, agent)


def model(value):
    return Tensors({"w": np.float32(value)})


def cluster_of(me):
    return int(me.memory["ifca"]["cluster"]["number"])


def test_a_device_takes_the_model_of_least_loss_and_says_so():
    me = Device()
    ifca.receive(turn(), me, {"model0": model(-3), "model1": model(2)})
    assert me.weight == 2
    sent = ifca.summarise(turn(), me, {})
    assert int(sent["cluster"]["number"]) == 1
    ifca.receive(turn(), me, {"model0": model(5), "model1": model(2)})
    assert me.weight == 5
    assert ifca.cross_entropy(me.features()) == pytest.approx(np.log1p(np.exp(-5.0)))


def test_devices_of_two_kinds_part_and_stay_parted():
    models = {"model0": model(0.1), "model1": model(-0.1)}  # hardly different to begin with
    kinds = [Device(f"a{i}", label=i % 2) for i in range(6)]
    for round in range(1, 4):
        uploads = []
        for me in kinds:
            ifca.receive(turn(me.agent, round), me, models)
            me.weight += 1.0 if me.labels[0] else -1.0  # what training on its own label does
            uploads.append(Upload(me.agent, round, "", ifca.summarise(turn(me.agent), me, {})))
        models = fuse_round(ifca.recipe, turn(round=round), GlobalState(models), uploads).shared
        assert [cluster_of(me) for me in kinds] == [1 - me.labels[0] for me in kinds]
    assert float(models["model0"]["w"]) > 3 > -3 > float(models["model1"]["w"])


def test_the_first_of_equal_models_is_taken():
    me = Device()
    ifca.receive(turn(clusters=3), me, {f"model{j}": model(1) for j in range(3)})
    assert cluster_of(me) == 0


@given(st.integers(0, 999), st.sampled_from([1.0, 50.0, 1e4]))
def test_the_loss_is_torchs_also_where_an_exponential_would_overflow(seed, size):
    rng = np.random.default_rng(seed)
    logits = (size * rng.standard_normal((5, 4))).astype(np.float32)
    labels = rng.integers(0, 4, 5)
    expected = torch.nn.functional.cross_entropy(
        torch.from_numpy(logits).double(), torch.from_numpy(labels)
    )
    found = ifca.cross_entropy(Features(np.zeros((5, 1), np.float32), logits, labels))
    assert found == pytest.approx(float(expected), rel=1e-9, abs=1e-12)


def test_while_a_model_is_missing_clusters_are_drawn_and_agents_differ():
    drawn = {}
    for agent in map(str, range(12)):
        me = Device(agent)
        ifca.receive(turn(agent, 0), me, {"model0": model(7)})
        drawn[agent] = cluster_of(me)
        assert me.weight == (7 if drawn[agent] == 0 else 0)
    assert set(drawn.values()) == {0, 1}


def upload(agent, cluster, value, n):
    number = Tensors({"number": np.array(cluster)})
    return Upload(
        agent, 1, "", {"weights": model(value), "data": sample_count(n), "cluster": number}
    )


def test_clusters_are_averaged_apart_and_one_that_nobody_chose_stays():
    before = GlobalState({"model2": model(9)})
    sent = [upload("a", 0, 1, 30), upload("b", 0, 5, 10), upload("c", 1, 4, 1)]
    state = fuse_round(ifca.recipe, turn(clusters=3), before, sent)
    assert {name: float(part["w"]) for name, part in state.shared.items()} == {
        "model0": 2,
        "model1": 4,
        "model2": 9,
    }


@pytest.mark.parametrize("cluster", [2, -1])
def test_a_cluster_that_there_is_not_is_refused(cluster):
    with pytest.raises(FusionError, match="cluster"):
        ifca.fold(turn(), upload("d", cluster, 1, 1), 1)
