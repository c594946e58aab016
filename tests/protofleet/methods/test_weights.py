"""FedAvg and FedProx against numbers worked out by hand."""

import numpy as np
import pytest
import torch

from coordinator.uploads.fuse import fuse_round
from protofleet.contract import Contract, Input
from protofleet.exchange.state import GlobalState, Upload
from protofleet.methods import fedavg
from protofleet.recipe import Turn
from protofleet.toolbox import losses
from protofleet.toolbox.summaries import class_means, sample_count
from protofleet.values.prototypes import Tensors

TURN = Turn(Contract("f", "r", 0, ("a",), Input("vector", (2,)), 2), fedavg.Hyper(), 1)


def upload(agent, weight, samples):
    tensors = Tensors({"w": np.float32(weight), "s": np.float32(2 * weight)})
    return Upload(agent, 1, "", {"weights": tensors, "data": sample_count(samples)})


def test_fedavg_is_the_mean_weighted_by_samples():
    state = fuse_round(
        fedavg.recipe, TURN, GlobalState(), [upload("a", 1.0, 30), upload("b", 5.0, 10)]
    )
    assert float(state.shared["weights"]["w"]) == 2.0
    assert float(state.shared["weights"]["s"]) == 4.0


def test_the_proximal_term_is_half_the_squared_distance_and_pulls_back():
    weights = {
        "a": torch.tensor([1.0, 2.0], requires_grad=True),
        "b": torch.tensor([[3.0]], requires_grad=True),
    }
    value = losses.proximal(weights, {"a": torch.tensor([0.0, 2.0]), "b": torch.tensor([[1.0]])})
    value.backward()
    assert float(value.detach()) == pytest.approx(0.5 * (1 + 4))
    assert weights["a"].grad.tolist() == [1, 0]
    assert weights["b"].grad.tolist() == [[2]]


def test_class_means_are_means_with_counts():
    got = class_means([[1, 2], [3, 4], [10, 0]], [4, 4, 1])
    assert got.classes.tolist() == [1, 4]
    assert got.vectors.tolist() == [[10, 0], [2, 3]]
    assert got.counts.tolist() == [1, 2]
    assert class_means([[1, 2]], [0], counts=False).counts is None
