"""FedProc against numbers worked out by hand."""

import numpy as np
import pytest
import torch

from coordinator.uploads.fuse import fuse_round
from protofleet.contract import Contract, Input
from protofleet.exchange.state import GlobalState, Upload
from protofleet.methods import fedproc
from protofleet.recipe import Batch, Turn
from protofleet.toolbox.summaries import sample_count
from protofleet.values.prototypes import Prototypes, Tensors

CONTRACT = Contract("f", "r", 0, ("a", "b", "c"), Input("vector", (2,)), 2)
KNOWN = {"prototypes": Prototypes([0, 1], [[0.5, 0.0], [0.0, 0.2]])}


def turn(round, **hyper):
    return Turn(CONTRACT, fedproc.Hyper(**hyper), round)


class Identity:
    """The logits are the embedding and a zero."""

    def features(self, x):
        return x, x

    def head(self, z):
        return torch.cat([z, torch.zeros(len(z), 1)], 1)


@pytest.mark.parametrize(
    ("round", "got", "want"),
    [
        (1, {}, 1.0),
        (1, KNOWN, 0.0),
        (2, KNOWN, 0.1),
        (6, KNOWN, 0.5),
        (11, KNOWN, 1.0),
        (40, KNOWN, 1.0),
        (6, {}, 1.0),
    ],
)
def test_the_classifier_takes_over_as_rounds_pass(round, got, want):
    [phase] = fedproc.train(turn(round, rounds=10), None, got)
    assert phase.given["alpha"] == pytest.approx(want)
    assert {name: array.shape for name, array in phase.given.items()} == {
        "prototypes": (3, 2),
        "have": (3,),
        "alpha": (),
    }


@pytest.mark.parametrize("unit_head", [True, False])
def test_the_loss_is_a_share_of_both(unit_head):
    now = turn(4, rounds=12, unit_head=unit_head)
    [phase] = fedproc.train(now, None, KNOWN)
    given = {name: torch.from_numpy(np.array(array)) for name, array in phase.given.items()}
    batch = Batch(torch.tensor([[6.0, 8.0]]), torch.tensor([0]))
    a, b = (0.6, 0.8) if unit_head else (6.0, 8.0)
    ce = np.log(np.exp(a) + np.exp(b) + 1) - a
    contrast = (
        np.log(np.exp(0.6) + np.exp(0.8)) - 0.6
    )  # with the unit vectors of the two known classes
    assert float(phase.loss(Identity(), batch, given, now.hyper)) == pytest.approx(
        0.25 * ce + 0.75 * contrast
    )


def test_prototypes_are_means_by_count_and_weights_means_by_samples():
    def upload(agent, n, weight, vector):
        means = Prototypes([0], [vector], [n])
        parts = {
            "prototypes": means,
            "weights": Tensors({"w": np.float32(weight)}),
            "data": sample_count(4 * n),
        }
        return Upload(agent, 2, "", parts)

    before = GlobalState(shared={"prototypes": Prototypes([0, 1], [[9.0, 9.0], [0.0, 1.0]])})
    uploads = [upload("a", 3, 1.0, [1.0, 0.0]), upload("b", 1, 5.0, [0.0, 1.0])]
    state = fuse_round(fedproc.recipe, turn(2), before, uploads).shared
    assert state["prototypes"].vectors.tolist() == [[0.75, 0.25], [0, 1]]
    assert float(state["weights"]["w"]) == 2.0
