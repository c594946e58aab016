"""ProtoNorm against numbers worked out by hand."""

import numpy as np
import pytest
import torch

from coordinator.uploads.fuse import fuse_round
from protofleet.contract import Contract, Input
from protofleet.exchange.state import GlobalState, Upload
from protofleet.methods import fedproto, protonorm
from protofleet.recipe import Batch, Turn
from protofleet.toolbox.access import as_given
from protofleet.values.prototypes import Prototypes

CONTRACT = Contract("f", "r", 0, ("a", "b", "c"), Input("vector", (2,)), 2)
Hyper = protonorm.Hyper


class Identity:
    """A network whose embedding is its input and whose logits are zero: CE is log 3."""

    def features(self, x):
        return x, x

    def head(self, z):
        return torch.zeros(len(z), 3) + 0 * z.sum()


def loss(hyper, x, y, prototypes):
    given = {k: torch.from_numpy(v) for k, v in as_given(prototypes, 3, 2).items()}
    return float(protonorm.loss(Identity(), Batch(torch.tensor(x), torch.tensor(y)), given, hyper))


def fuse(before, *uploads, **settings):
    sent = [Upload(a, 2, "", {"prototypes": Prototypes(c, v)}) for a, c, v in uploads]
    return fuse_round(protonorm.recipe, Turn(CONTRACT, Hyper(**settings), 2), before, sent)


def test_the_loss_pulls_toward_the_scaled_prototype():
    known = Prototypes([0, 1], [[0.0, 1.0], [1.0, 0.0]])
    # (1, 2) against 5·(0, 1): 1 + 9. Over 1 × 2 values: 5.
    assert loss(Hyper(gamma=5), [[1.0, 2.0]], [0], known) == pytest.approx(np.log(3) + 5)
    assert loss(Hyper(gamma=5, lam=2), [[1.0, 2.0]], [0], known) == pytest.approx(np.log(3) + 10)
    assert loss(Hyper(gamma=5, scale=False), [[1.0, 2.0]], [0], known) == pytest.approx(
        np.log(3) + 1
    )
    assert loss(Hyper(gamma=5), [[1.0, 2.0]], [2], known) == pytest.approx(np.log(3))
    assert loss(Hyper(), [[1.0, 2.0]], [0], None) == pytest.approx(np.log(3))


def test_two_classes_end_up_opposite_and_three_at_120_degrees():
    two = fuse(GlobalState(), ("a", [0, 1], [[1.0, 1.0], [1.0, 2.0]])).shared["prototypes"].vectors
    assert two[0] @ two[1] == pytest.approx(-1, abs=2e-3)
    three = (
        fuse(GlobalState(), ("a", [0, 1, 2], [[1.0, 1.0], [1.0, 2.0], [3.0, 1.0]]))
        .shared["prototypes"]
        .vectors
    )
    np.testing.assert_allclose((three @ three.T)[~np.eye(3, dtype=bool)], -0.5, atol=2e-3)


def test_the_mean_over_devices_is_plain_and_comes_before_the_direction():
    # (1, 0) and (0, 3) have the mean (0.5, 1.5); the mean of their directions would be another.
    uploads = [("a", [0], [[1.0, 0.0]]), ("b", [0], [[0.0, 3.0]])]
    found = fuse(GlobalState(), *uploads, align=False).shared["prototypes"].vectors
    np.testing.assert_allclose(found, [np.array([0.5, 1.5]) / np.hypot(0.5, 1.5)], atol=1e-3)
    raw = fuse(GlobalState(), *uploads, align=False, unit=False).shared["prototypes"].vectors
    np.testing.assert_array_equal(raw, [[0.5, 1.5]])


def test_absent_classes_keep_their_prototype_and_push_only_on_request():
    before = GlobalState(shared={"prototypes": Prototypes([1, 2], [[1.0, 0.0], [0.0, 1.0]])})
    alone = fuse(before, ("a", [0], [[-3.0, -4.0]])).shared["prototypes"]
    assert alone.classes.tolist() == [0, 1, 2]
    np.testing.assert_allclose(alone.vectors, [[-0.6, -0.8], [1.0, 0.0], [0.0, 1.0]], atol=1e-3)
    pushed = fuse(before, ("a", [0], [[-3.0, -4.0]]), absent_push=True).shared["prototypes"]
    np.testing.assert_allclose(
        pushed.vectors, [[-(0.5**0.5), -(0.5**0.5)], [1.0, 0.0], [0.0, 1.0]], atol=2e-3
    )


def test_nobody_sent_changes_nothing():
    before = GlobalState(shared={"prototypes": Prototypes([1, 2], [[1.0, 0.0], [0.0, 1.0]])})
    assert fuse(before).sha256 == before.sha256
    assert fuse(before, ("a", np.zeros(0, np.int64), np.zeros((0, 2)))).sha256 == before.sha256
    assert fuse(GlobalState()).shared == {}


def test_without_alignment_scaling_and_directions_it_is_fedproto():
    sent = [
        Upload(a, 2, "", {"prototypes": Prototypes([0], [[v, 1.0]])})
        for a, v in (("a", 1.0), ("b", 4.0))
    ]
    plain = Hyper(align=False, scale=False, unit=False)
    one = fuse_round(protonorm.recipe, Turn(CONTRACT, plain, 2), GlobalState(), sent)
    two = fuse_round(fedproto.recipe, Turn(CONTRACT, fedproto.Hyper(), 2), GlobalState(), sent)
    assert one.sha256 == two.sha256
    mine = protonorm.scorers(Turn(CONTRACT, plain, 2), None, one.shared)
    assert mine == fedproto.scorers(Turn(CONTRACT, fedproto.Hyper(), 2), None, two.shared)
