"""FedMPS against numbers worked out by hand, and the paper's count of what crosses."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from coordinator.uploads.fuse import fuse_round
from edge_agent.networks.net import build_net
from edge_agent.training.batches import SampleTensors
from edge_agent.training.evaluate import evaluate
from protofleet.contract import Contract, Input
from protofleet.errors import SettingError
from protofleet.exchange.state import GlobalState, Upload
from protofleet.methods import fedmps, fedproto
from protofleet.methods.fedmps import Hyper
from protofleet.recipe import Batch, ByHead, Features, NearestPrototype, Turn
from protofleet.toolbox import losses
from protofleet.values.prototypes import Prototypes, SoftLabels

CONTRACT = Contract("f", "r", 0, ("a", "b", "c"), Input("vector", (2,)), 2)


class Plain:
    """Low-level features are twice the input, the embedding is the input; logits are it and a
    zero.
    """

    def features(self, x):
        return 2 * x, x

    def head(self, z):
        return torch.cat([z, torch.zeros(len(z), 1)], 1)


class Device:
    def __init__(self, x, y):
        x = np.asarray(x, np.float32)
        self.seen = Features(x, x, np.asarray(y), 3 * x[:, :1] + np.array([[0, 1]], np.float32))

    def features(self, *, low=False):
        return self.seen


def turn(**settings):
    return Turn(CONTRACT, Hyper(**settings), 2)


def loss(hyper, **given):
    x, y = torch.tensor([[3.0, 4.0], [0.0, 2.0]]), torch.tensor([0, 1])
    nothing = {"low": torch.zeros(3, 2), "high": torch.zeros(3, 2), "soft": torch.zeros(3, 3)}
    nothing |= {f"{name}_have": torch.zeros(3) for name in ("low", "high", "soft")}
    return float(fedmps.loss(Plain(), Batch(x, y), nothing | given, hyper))


UNIT = torch.tensor([[0.6, 0.8], [0.0, 1.0]])
CE = float(losses.cross_entropy(Plain().head(UNIT), torch.tensor([0, 1])))


def test_the_first_round_is_cross_entropy_of_the_unit_embedding():
    assert loss(Hyper()) == pytest.approx(CE)


@pytest.mark.parametrize("scaled", [False, True])
def test_each_term_has_its_weight(scaled):
    p, one, y = (
        torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]),
        torch.tensor([1.0, 1.0, 0.0]),
        torch.tensor([0, 1]),
    )
    soft = torch.tensor([[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.0, 0.0, 0.0]])
    known = {"low": p, "low_have": one, "high": p, "high_have": one, "soft": soft, "soft_have": one}
    contrast = float(losses.supcon(UNIT, y, p, one, 0.5)) * (0.5 / 0.07 if scaled else 1)
    kl = float(losses.kl_to_soft_labels(Plain().head(UNIT), y, soft, one, 5.0))
    assert contrast > 0.1
    assert kl > 0.01
    off = {"alpha": 0.0, "beta": 0.0, "mu": 0.0, "scaled": scaled}
    assert loss(Hyper(**off), **known) == pytest.approx(CE)
    assert loss(Hyper(**off | {"alpha": 0.2, "lam": 2.0}), **known) == pytest.approx(
        CE + 2 * 0.2 * contrast
    )
    assert loss(Hyper(**off | {"beta": 3.0}), **known) == pytest.approx(CE + 3 * contrast)
    assert loss(Hyper(**off | {"mu": 5.0}), **known) == pytest.approx(CE + 5 * kl)
    assert loss(Hyper(**off | {"mu": 5.0, "lam": 0.0, "beta": 1.0}), **known) == pytest.approx(
        CE + 5 * kl
    )


def test_a_device_sends_means_of_unit_vectors_on_both_levels_without_counts():
    # Embeddings (3, 4), (0, 2) of class 1; low-level (9, 10), (0, 1).
    sent = fedmps.summarise(turn(), Device([[3, 4], [0, 2]], [1, 1]), {})
    np.testing.assert_allclose(sent["high"].vectors, [[0.3, 0.9]], rtol=1e-6)
    np.testing.assert_allclose(
        sent["low"].vectors, [[4.5 / 181**0.5, 5 / 181**0.5 + 0.5]], rtol=1e-6
    )
    assert sent["high"].counts is None
    assert fedmps.summarise(turn(alpha=0), Device([[3, 4], [0, 2]], [1, 1]), {}).keys() == {"high"}


def test_shapes_of_what_the_loss_is_given_do_not_change_after_the_first_round():
    device = Device([[3, 4], [0, 2]], [1, 1])
    state = fuse_round(fedmps.recipe, turn(), GlobalState(), UPLOADS)
    first, later = (fedmps.train(turn(), device, got)[0].given for got in ({}, state.shared))
    assert {k: (a.shape, a.dtype) for k, a in first.items()} == {
        k: (a.shape, a.dtype) for k, a in later.items()
    }
    assert not any(a.any() for a in first.values())
    assert later["soft_have"].tolist() == later["high_have"].tolist() == [1, 1, 0]


def upload(agent, classes, vectors):
    means = Prototypes(classes, vectors)
    return Upload(agent, 2, "", {"low": means, "high": means})


UPLOADS = [upload("a", [0, 1], [[1.0, 0.0], [0.0, 1.0]]), upload("b", [0], [[0.0, 0.5]])]


def fused(before=None, uploads=UPLOADS, **settings):
    return fuse_round(fedmps.recipe, turn(**settings), before or GlobalState(), uploads)


@pytest.mark.parametrize(("unit", "first"), [(False, [0.5, 0.25]), (True, [0.8**0.5, 0.2**0.5])])
def test_prototypes_are_plain_means_raw_or_at_length_one(unit, first):
    state = fused(unit_prototypes=unit)
    for level in ("low", "high"):
        np.testing.assert_allclose(state.shared[level].vectors, [first, [0, 1]], atol=1e-3)


def test_soft_labels_are_the_classifiers_mean_softmax_at_tau_2():
    state = fused(tau2=2.0)
    weight, bias = (state.server["classifier"][name].astype(float) for name in ("weight0", "bias0"))
    logits = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.5]]) @ weight + bias
    share = np.exp(logits / 2) / np.exp(logits / 2).sum(1, keepdims=True)
    soft = state.shared["soft"]
    assert soft.classes.tolist() == [0, 1]
    np.testing.assert_allclose(soft.probabilities, [(share[0] + share[2]) / 2, share[1]], atol=1e-5)


def test_the_classifier_goes_on_from_round_to_round_unless_told_otherwise():
    first = fused()
    still = fused(first, server_epochs=0)
    assert still.server == first.server
    assert fused(server_keeps=False).server == {}
    assert fused(first).server != first.server
    assert fused(first, server_optimizer="adam").server != fused(first).server


def test_the_classifier_has_the_shape_of_the_fleets_head():
    contract = replace(CONTRACT, head_hidden=(5, 4))
    state = fuse_round(fedmps.recipe, Turn(contract, Hyper(), 2), GlobalState(), UPLOADS)
    layers = state.server["classifier"]
    assert [layers[f"weight{i}"].shape for i in range(3)] == [(2, 5), (5, 4), (4, 3)]


def test_classes_that_nobody_sent_keep_prototypes_and_soft_labels():
    before = fused()
    after = fused(before, [upload("b", [0, 2], [[0.0, 1.0], [1.0, 1.0]])])
    assert (
        after.shared["high"].classes.tolist() == after.shared["soft"].classes.tolist() == [0, 1, 2]
    )
    assert (after.shared["high"].vectors[1] == before.shared["high"].vectors[1]).all()
    assert (after.shared["soft"].probabilities[1] == before.shared["soft"].probabilities[1]).all()


def test_without_their_weight_soft_labels_are_not_made():
    state = fused(mu=0)
    assert state.shared.keys() == {"low", "high"}
    assert state.server == {}


def test_the_coordinators_classifier_has_no_logits_of_length_one():
    contract = replace(CONTRACT, unit_logits=True)
    device = Device([[3.0, 4.0]], [0])
    with pytest.raises(SettingError, match="no logits of length one"):
        fedmps.train(Turn(contract, Hyper(mu=1), 2), device, {})
    assert fedmps.train(Turn(contract, Hyper(mu=0), 2), device, {})


def test_embeddings_are_compared_and_classified_at_length_one():
    state = fused()
    found = fedmps.scorers(turn(), Device([[1, 1]], [0]), state.shared)
    assert found == {
        "prototype": NearestPrototype(state.shared["high"], of_unit=True),
        "head": ByHead(of_unit=True),
    }
    assert fedmps.scorers(turn(), Device([[1, 1]], [0]), {}).keys() == {"head"}
    # By plain distance (0, 9) is nearer to (0, 3) of class 1; at length one (0, 1) is nearer to (0,
    # 0.5) of class 0.
    net = build_net(CONTRACT, "mlp", {}, 0)
    net.features = lambda x: (x, x)
    known = Prototypes([0, 1], [[0.0, 0.5], [0.0, 3.0]])
    scorers = {"plain": NearestPrototype(known), "unit": NearestPrototype(known, of_unit=True)}
    splits = {"test": SampleTensors(torch.tensor([[0.0, 9.0]]), torch.tensor([0]))}
    tallies = evaluate(net, scorers, splits, np.array([0, 1]), CONTRACT)["test"]
    assert (tallies["plain"].accuracy, tallies["unit"].accuracy) == (0.0, 1.0)


def test_the_floats_that_cross_are_table_vs():
    # 59 client-classes of 400 + 120 floats up, 10 × 10 soft labels down: 30,780; FedProto's 59 ×
    # 120 = 7,080.
    def sent(n):
        return {
            "low": Prototypes(range(n), np.ones((n, 400))),
            "high": Prototypes(range(n), np.ones((n, 120))),
        }

    up = [sent(n) for n in (3,) * 19 + (2,)]
    down = SoftLabels(range(10), np.full((10, 10), 0.1))
    assert fedmps.recipe.paper_floats(turn(), up, GlobalState({**up[0], "soft": down})) == 30_780
    means = [{"prototypes": parts["high"]} for parts in up]
    assert (
        fedproto.recipe.paper_floats(Turn(CONTRACT, fedproto.Hyper(), 2), means, GlobalState())
        == 7_080
    )
