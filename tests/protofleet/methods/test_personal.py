"""LG-FedAvg, FedPer, FedRep and IFCA: what is shared, what stays, and which model a device
takes.
"""

import numpy as np
import pytest

from coordinator.uploads.fuse import fuse_round
from protofleet.contract import Contract, Input
from protofleet.errors import FusionError
from protofleet.exchange.state import GlobalState, Upload
from protofleet.methods import fedper, fedrep, ifca, lg_fedavg
from protofleet.recipe import Features, Turn
from protofleet.toolbox.summaries import sample_count
from protofleet.values.prototypes import Tensors

CONTRACT = Contract("f", "r", 0, ("a", "b"), Input("vector", (1,)), 1)


class Device:
    """One number is all its weights: the logit of class 1. All its samples are of class 1."""

    def __init__(self, agent="a"):
        self.agent, self.samples, self.memory, self.weight, self.asked = agent, 4, {}, 0.0, []

    def load(self, weights):
        self.weight = float(weights["w"])

    def weights(self, *modules):
        self.asked.append(modules)
        return Tensors({"w": np.float32(self.weight)})

    def features(self):
        logits = np.tile(np.float32([0, self.weight]), (4, 1))
        return Features(np.zeros((4, 1), np.float32), logits, np.ones(4, np.int64))


@pytest.mark.parametrize(
    ("method", "module"), [(lg_fedavg, "head"), (fedper, "backbone"), (fedrep, "backbone")]
)
def test_only_the_shared_half_is_sent_and_averaged_by_samples(method, module):
    turn, me = Turn(CONTRACT, method.recipe.hyper(), 1), Device()
    sent = method.recipe.summarise(turn, me, {})
    assert me.asked == [(module,)]
    other = {"weights": Tensors({"w": np.float32(8)}), "data": sample_count(12)}
    uploads = [Upload("a", 1, "", sent), Upload("b", 1, "", other)]
    state = fuse_round(method.recipe, turn, GlobalState(), uploads)
    assert float(state.shared["weights"]["w"]) == 6
    method.recipe.receive(turn, me, state.shared)
    assert me.weight == 6


def test_fedrep_trains_the_head_then_the_extractor():
    turn = Turn(CONTRACT, fedrep.Hyper(head_epochs=3), 1)
    phases = fedrep.train(turn, Device(), {})
    assert [(p.train, p.epochs) for p in phases] == [(("head",), 3), (("backbone",), None)]


def ifca_turn(agent="a", round=1, clusters=2):
    return Turn(CONTRACT, ifca.Hyper(clusters=clusters), round, agent)


def model(value):
    return Tensors({"w": np.float32(value)})


def test_a_device_takes_the_model_of_least_loss_and_says_so():
    me = Device()
    ifca.receive(ifca_turn(), me, {"model0": model(-3), "model1": model(2)})
    assert me.weight == 2
    sent = ifca.summarise(ifca_turn(), me, {})
    assert int(sent["cluster"]["number"]) == 1
    ifca.receive(ifca_turn(), me, {"model0": model(5), "model1": model(2)})
    assert me.weight == 5
    assert ifca.cross_entropy(me.features()) == pytest.approx(np.log1p(np.exp(-5.0)))


def test_while_a_model_is_missing_clusters_are_drawn_and_agents_differ():
    drawn = {}
    for agent in map(str, range(12)):
        me = Device(agent)
        ifca.receive(ifca_turn(agent, 0), me, {"model0": model(7)})
        drawn[agent] = int(me.memory["ifca"]["cluster"]["number"])
        assert me.weight == (7 if drawn[agent] == 0 else 0)
    assert set(drawn.values()) == {0, 1}


def test_clusters_are_averaged_apart_and_one_that_nobody_chose_stays():
    def upload(agent, cluster, value, n):
        number = Tensors({"number": np.array(cluster)})
        return Upload(
            agent, 1, "", {"weights": model(value), "data": sample_count(n), "cluster": number}
        )

    before = GlobalState({"model2": model(9)})
    sent = [upload("a", 0, 1, 30), upload("b", 0, 5, 10), upload("c", 1, 4, 1)]
    state = fuse_round(ifca.recipe, ifca_turn(clusters=3), before, sent)
    assert {name: float(part["w"]) for name, part in state.shared.items()} == {
        "model0": 2,
        "model1": 4,
        "model2": 9,
    }
    with pytest.raises(FusionError, match="cluster"):
        ifca.fold(ifca_turn(), upload("d", 2, 1, 1), 1)
