"""MP-FedCL against numbers worked out by hand."""

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from coordinator.uploads.fuse import fuse_round
from protofleet.contract import Contract, Input
from protofleet.exchange.state import GlobalState, Upload
from protofleet.methods import mpfedcl
from protofleet.recipe import Batch, Features, Turn
from protofleet.toolbox.summaries import sample_count
from protofleet.values.prototypes import Prototypes, Tensors, count_floats

DIGITS = tuple("0123456789")


def turn(hyper=None, classes=DIGITS, dim=2):
    return Turn(
        Contract("f", "r", 0, classes, Input("vector", (dim,)), dim),
        hyper or mpfedcl.Hyper(),
        2,
        "a",
    )


@dataclass
class Device:
    """Ten classes of forty samples with embeddings of 256, as in the paper's network for MNIST."""

    samples: int = 400
    memory: dict = field(default_factory=dict)

    def features(self, *, low=False):
        z = np.random.default_rng(0).standard_normal((400, 256)).astype(np.float32)
        return Features(z, np.zeros((400, 10), np.float32), np.arange(400) % 10)

    def weights(self, *modules):
        return Tensors({"w": np.ones(7, np.float32)})


def test_an_upload_costs_what_the_papers_table_ii_says():
    sent = mpfedcl.summarise(turn(dim=256), Device(), {})
    assert count_floats({"prototypes": sent["prototypes"]}) == 5_120  # 2 · 10 · 256
    assert count_floats(sent) == 5_120 + 7
    alone = mpfedcl.summarise(turn(mpfedcl.Hyper(prototypes_only=True), dim=256), Device(), {})
    assert list(alone) == ["prototypes"]
    few = Prototypes(
        [3], np.ones((1, 256))
    )  # a client with a single prototype is counted padded to all twenty
    counted = mpfedcl.recipe.paper_floats(turn(dim=256), [sent, {"prototypes": few}], GlobalState())
    assert counted == 2 * 5_120


@pytest.mark.parametrize(("summary", "most"), [("single", 10), ("dbscan", 80), ("kmeans", 20)])
def test_the_summary_is_the_one_that_was_asked_for(summary, most):
    sent = mpfedcl.summarise(turn(mpfedcl.Hyper(summary=summary), dim=256), Device(), {})
    assert set(sent["prototypes"].classes.tolist()) == set(range(10))
    assert 10 <= len(sent["prototypes"].classes) <= most


def upload(agent, samples, weight, classes, vectors):
    weights = Tensors({"w": np.float32(weight)})
    parts = {
        "prototypes": Prototypes(classes, vectors),
        "weights": weights,
        "data": sample_count(samples),
    }
    return Upload(agent, 2, "", parts)


UPLOADS = [
    upload("b", 10, 5.0, [1], [[0.0, 3.0]]),
    upload("a", 30, 1.0, [0, 0, 1], [[1.0, 0.0], [3.0, 0.0], [0.0, 1.0]]),
]


def test_the_pool_is_everyones_in_the_order_of_names_and_weights_are_averaged_by_samples():
    state = fuse_round(mpfedcl.recipe, turn(), GlobalState(), UPLOADS)
    assert sorted(state.shared) == ["pool.0", "pool.1", "weights"]
    assert state.shared["pool.0"].classes.tolist() == [0, 0, 1]
    assert state.shared["pool.1"].vectors.tolist() == [[0, 3]]
    assert float(state.shared["weights"]["w"]) == 2.0


def test_without_weights_only_the_pool_goes_round():
    light = [Upload(u.agent, 2, "", {"prototypes": u.parts["prototypes"]}) for u in UPLOADS]
    state = fuse_round(
        mpfedcl.recipe, turn(mpfedcl.Hyper(prototypes_only=True)), GlobalState(), light
    )
    assert sorted(state.shared) == ["pool.0", "pool.1"]


def test_inference_looks_at_the_pool_without_padding():
    state = fuse_round(mpfedcl.recipe, turn(), GlobalState(), UPLOADS)
    compared = mpfedcl.scorers(turn(), Device(), state.shared)["prototype"].prototypes
    assert compared.classes.tolist() == [0, 0, 1, 1]
    assert compared.vectors.tolist() == [[1, 0], [3, 0], [0, 1], [0, 3]]


class Identity:
    def features(self, x):
        return x, x

    def head(self, z):
        return torch.zeros(len(z), 3) + 0 * z.sum()


def test_the_loss_is_cross_entropy_plus_the_contrast_with_the_padded_pool():
    # Two devices, K = 2: class 0 at (1, 0) in all four rows, by its own rows or by the mean; class
    # 1 has too few prototypes everywhere, so its mean (0, 2), of length one (0, 1), stands in all
    # four; class 2 is not compared with.
    pool = {
        "pool.0": Prototypes([0, 0, 1], [[1.0, 0.0], [3.0, 0.0], [0.0, 1.0]]),
        "pool.1": Prototypes([1], [[0, 3]]),
    }
    hyper = mpfedcl.Hyper(tau=0.5, lam=2.0)
    [phase] = mpfedcl.train(turn(hyper, ("a", "b", "c")), Device(), pool)
    given = {name: torch.from_numpy(array) for name, array in phase.given.items()}
    batch = Batch(torch.tensor([[6.0, 8.0], [1.0, 1.0]]), torch.tensor([0, 2]))
    first = np.log(np.exp(0.6 / 0.5) + np.exp(0.8 / 0.5)) - 0.6 / 0.5
    assert float(phase.loss(Identity(), batch, given, hyper)) == pytest.approx(
        np.log(3) + 2 * first / 2, rel=1e-5
    )
