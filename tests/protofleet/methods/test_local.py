"""Local: nothing crosses, and a device is read by itself alone."""

import numpy as np
import pytest
from sklearn.neighbors import NearestCentroid

from protofleet.contract import Contract, Input
from protofleet.exchange.state import GlobalState, Upload
from protofleet.methods import local
from protofleet.recipe import ByHead, Features, Turn
from protofleet.values import nearest
from protofleet.values.prototypes import Prototypes
from tests.protofleet.methods import devices

C, D = 4, 3
TURN = Turn(Contract("f", "r", 0, tuple("abcd"), Input("vector", (D,)), D), local.Hyper(), 1)


class Device:
    """A learner whose features are its samples."""

    def __init__(self, x, y):
        self.x, self.y = x.astype(np.float32), y

    def features(self):
        return Features(self.x, np.zeros((len(self.y), C), np.float32), self.y)


def test_nothing_leaves_and_nothing_changes():
    before = GlobalState({"prototypes": Prototypes([0], [[1.0]])})
    assert not any(local.recipe.talks(Turn(TURN.contract, TURN.hyper, r)) for r in range(1, 9))
    assert local.summarise(TURN, Device(np.zeros((1, D)), np.array([0])), {}) == {}
    assert local.fold(TURN, Upload("a", 1, "", {}), 1) == {}
    assert local.fuse(TURN, {}, before) is before


def test_its_prototypes_classify_as_scikit_learns_nearest_centroid():
    rng = np.random.default_rng(0)
    y = np.concatenate([np.arange(3), rng.integers(0, 3, 60)])  # nothing of class 3
    x = rng.standard_normal((len(y), D)) + 1.5 * rng.standard_normal((C, D))[y]
    scorers = local.scorers(TURN, Device(x, y), {})
    assert scorers["head"] == ByHead()
    points = rng.standard_normal((200, D)).astype(np.float32)
    scores = nearest.prototype_scores(points, scorers["prototype"].prototypes, C)
    theirs = NearestCentroid().fit(x.astype(np.float32), y).predict(points)
    assert (nearest.best(scores) == theirs).all()


def test_its_loss_is_the_mean_of_minus_the_log_share_of_the_own_class():
    me, samples = devices.device(3), devices.batch(7)
    logits = me.net(samples.x)[2].detach().numpy().astype(np.float64)
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    expected = -np.log(shares[np.arange(7), samples.y.numpy()]).mean()
    value = local.loss(me.net, samples, {}, local.Hyper())
    assert float(value.detach()) == pytest.approx(expected, rel=1e-5)
