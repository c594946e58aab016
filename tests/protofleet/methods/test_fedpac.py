"""FedPAC against numbers worked out by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from coordinator.uploads.fuse import fuse_round
from protofleet.contract import Contract, Input
from protofleet.errors import FusionError
from protofleet.exchange.state import GlobalState, Upload
from protofleet.methods import fedpac
from protofleet.recipe import Features, Turn
from protofleet.values.prototypes import Head, Prototypes, Tensors

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
