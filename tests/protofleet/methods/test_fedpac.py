"""FedPAC against numbers worked out by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from coordinator.uploads.fuse import fuse_round
from edge_agent.training.batches import blocks
from protofleet.contract import Contract, Input
from protofleet.errors import FusionError
from protofleet.exchange.state import GlobalState, Upload
from protofleet.methods import fedpac
from protofleet.recipe import Features, Turn
from protofleet.values.prototypes import Head, Prototypes, Tensors
from simulators.run.setup import prepare

CONTRACT = Contract("f", "r", 0, ("a", "b"), Input("vector", (1,)), 1)


def turn(**settings):
    return Turn(CONTRACT, fedpac.Hyper(**settings), 2)


def upload(agent, n, at, variance, row):
    """A device with n samples of class 0, whose received features had mean `at`; its head is `row`
    for both classes.
    """
    return Upload(
        agent,
        2,
        "",
        {
            "prototypes": Prototypes([0], [[10.0 * at]], [n]),
            "before": Prototypes([0], [[at]], [n]),
            "variance": Tensors({"variance": np.float32(variance)}),
            "extractor": Tensors({"w": np.float32(at)}),
            "head": Head([0, 1], [[row], [2 * row]], [row, -row]),
        },
    )


SENT = [upload("a", 30, 0.0, 1.0, 0.0), upload("b", 10, 2.0, 1.0, 12.0)]


def test_extractor_and_prototypes_are_weighted_by_samples_and_heads_by_the_program():
    state = fuse_round(fedpac.recipe, turn(), GlobalState(), SENT)
    assert float(state.shared["extractor"]["w"]) == 0.5
    assert state.shared["prototypes"] == Prototypes([0], [[5.0]])
    # For a: diag(1, 1 + 2²), so b gets 1 / 6; for b the other way round.
    for agent, share in (("a", 1 / 6), ("b", 5 / 6)):
        head = state.own[agent]["head"]
        np.testing.assert_allclose(head.weight, [[12 * share], [24 * share]], rtol=1e-5)
        np.testing.assert_allclose(head.bias, [12 * share, -12 * share], rtol=1e-5)


def test_devices_of_equal_features_share_by_their_variance_alone():
    sent = [upload("a", 30, 1.0, 1.0, 0.0), upload("b", 10, 1.0, 3.0, 12.0)]
    own = fuse_round(fedpac.recipe, turn(), GlobalState(), sent).own
    assert own["a"] == own["b"]
    np.testing.assert_allclose(own["a"]["head"].bias, [3, -3], rtol=1e-5)


def test_a_device_that_did_not_send_keeps_its_head():
    first = fuse_round(fedpac.recipe, turn(), GlobalState(), SENT)
    second = fuse_round(fedpac.recipe, turn(), first, SENT[:1])
    assert second.own["b"] == first.own["b"]
    assert second.own["a"]["head"].bias.tolist() == [0, 0]


def test_without_combination_no_head_comes_back():
    assert fuse_round(fedpac.recipe, turn(combine=False), GlobalState(), SENT).own == {}


def test_prototypes_only_is_prototypes_only():
    sent = [Upload(u.agent, 2, "", {"prototypes": u.parts["prototypes"]}) for u in SENT]
    state = fuse_round(fedpac.recipe, turn(prototypes_only=True), GlobalState(), sent)
    assert state.shared == {"prototypes": Prototypes([0], [[5.0]])}
    assert not state.own
    assert fuse_round(fedpac.recipe, turn(prototypes_only=True), state, []).sha256 == state.sha256


def test_half_a_head_is_refused():
    parts = {**SENT[0].parts, "head": Head([0], [[1.0]], [1.0])}
    with pytest.raises(FusionError, match="head"):
        fedpac.fold(turn(), Upload("a", 2, "", parts), 1)


def test_the_head_learns_first_and_an_unknown_class_is_pulled_to_ones_own_mean():
    seen = Features(
        np.float32([[1.0], [3.0], [7.0]]), np.zeros((3, 2), np.float32), np.array([0, 0, 1])
    )
    me = SimpleNamespace(agent="a", memory={}, features=lambda: seen)
    known = {"prototypes": Prototypes([0], [[5.0]])}
    head, extractor = fedpac.train(turn(), me, known)
    assert (head.train, head.lr, head.epochs, head.weight_decay) == (("head",), 0.1, 1, 5e-4)
    assert (extractor.train, extractor.lr, extractor.weight_decay) == (("backbone",), None, 5e-4)
    assert extractor.given["prototypes"].tolist() == [[5], [7]]
    assert fedpac.train(turn(), me, {})[1].given["have"].tolist() == [0, 0]
    # V = (1/3)·[(1 + 9 + 49)/3 − (2/3·2)² − (1/3·7)²]
    variance = float(me.memory["fedpac"]["variance"]["variance"])
    assert variance == pytest.approx((59 / 3 - 16 / 9 - 49 / 9) / 3)


@pytest.fixture
def on_lenet(small_lab):
    """A device of a fleet of LeNets, whose classifier has a hidden layer of 84."""

    def device(method):
        setup = prepare(small_lab(method, backbone="lenet", image_size=32, agents=3))
        agent = setup.agent(setup.partition.shards[0], setup.context())
        agent.receive(0, {}, {})
        return setup.contract, agent

    return device


def fed_to_the_last_layer(agent, contract):
    """What goes into `head.out` in evaluation mode, captured there, with the labels."""
    net, rows = agent.network().eval(), []
    hook = net.head.get_submodule("out").register_forward_pre_hook(
        lambda _, inputs: rows.append(inputs[0].numpy())
    )
    with torch.no_grad():
        for x in blocks(agent.data.train, contract.input, contract.numerics):
            net(x)
    hook.remove()
    return np.concatenate(rows).astype(np.float64), agent.data.train.y.numpy()


@pytest.mark.parametrize("method", ["fedpac", "fedic"])
def test_statistics_are_of_what_the_combined_rows_read(on_lenet, method):
    contract, agent = on_lenet(method)
    f, y = fed_to_the_last_layer(agent, contract)
    assert f.shape[1] == contract.embedding == 84
    n, total = len(y), 0.0
    h = np.zeros((contract.n_classes, f.shape[1]))
    for c in range(contract.n_classes):  # the paper's loops over samples and outer products
        of_class = [row for row, label in zip(f, y, strict=True) if label == c]
        if of_class:
            p = len(of_class) / n
            mean = sum(of_class) / len(of_class)
            second = sum(np.trace(np.outer(row, row)) for row in of_class) / len(of_class)
            h[c] = p * mean
            total += p * second - p**2 * np.trace(np.outer(mean, mean))
    parts = agent.work(1)  # what is sent is of the received extractor, before training
    assert float(parts["variance"]["variance"]) == pytest.approx(total / n, rel=1e-4)
    before = parts["before"]
    shares = np.asarray(before.counts)[:, None] / n
    np.testing.assert_allclose(shares * before.vectors, h[before.classes], rtol=1e-4, atol=1e-6)
    # Rows, prototypes and anchors are of one space; hidden layers travel with the extractor.
    assert parts["head"].weight.shape[1] == parts["prototypes"].dim == 84
    assert "backbone.neck.hidden1.weight" in parts["extractor"].arrays


@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_hidden_units_in_another_order_and_scale_scale_the_statistics_alone(on_lenet, scale):
    contract, plain = on_lenet("fedpac")
    _, changed = on_lenet("fedpac")
    order = np.random.default_rng(0).permutation(84)
    saved = changed.checkpoint()
    weights = dict(saved[""]["weights"].arrays)
    for name in ("backbone.neck.hidden1.weight", "backbone.neck.hidden1.bias"):
        weights[name] = scale * weights[name][order]
    weights["head.out.weight"] = weights["head.out.weight"][:, order] / scale
    changed.restore({"": {**saved[""], "weights": Tensors(weights)}})
    agents = (plain, changed)
    logits = [agent.network().eval()(images_of(agent, contract))[2].detach() for agent in agents]
    torch.testing.assert_close(*logits, rtol=1e-4, atol=1e-5)  # the same classifier
    sent = [agent.work(1) for agent in agents]
    one, other = (float(parts["variance"]["variance"]) for parts in sent)
    assert other == pytest.approx(scale**2 * one, rel=1e-3)
    rows = [parts["before"].vectors for parts in sent]
    np.testing.assert_allclose(rows[1], scale * rows[0][:, order], rtol=1e-3, atol=1e-5)


def images_of(agent, contract):
    return next(blocks(agent.data.train, contract.input, contract.numerics))
