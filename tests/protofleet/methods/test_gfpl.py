"""GFPL against numbers worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from coordinator.uploads.fuse import fuse_round
from protofleet.contract import Contract, Input
from protofleet.errors import FusionError, SettingError
from protofleet.exchange.state import GlobalState, Upload
from protofleet.methods import gfpl
from protofleet.recipe import Batch, Turn
from protofleet.values.prototypes import Mixtures
from simulators.run.rounds import LabOptions, run
from simulators.run.setup import prepare

CONTRACT = Contract("f", "r", 0, ("a", "b"), Input("vector", (2,)), 2)
FRAME = torch.eye(2)


class Identity:
    """A network whose embedding is its input doubled, whose logits are zero, and whose projection
    is the embedding.
    """

    def features(self, x):
        return x, 2 * x

    def head(self, z):
        return torch.zeros(len(z), 2) + 0 * z.sum()

    def extra(self, name, z):
        assert name == "project"
        return z


def turn(round=10, agent="", **hyper):
    return Turn(CONTRACT, gfpl.Hyper(**hyper), round, agent)


@pytest.mark.parametrize("lam", [0.0, 2.0])
def test_the_loss_is_cross_entropy_plus_dot_regression_of_samples_and_of_pseudo_features(lam):
    x, y = torch.tensor([[3.0, 4.0], [1.0, 0.0]]), torch.tensor([0, 1])
    wanted = np.log(2) + lam * (0.4**2 + 1) / 2 / 2
    for loss in (gfpl.loss, gfpl.retrain):
        got = loss(Identity(), Batch(x, y), {"frame": FRAME}, gfpl.Hyper(lam=lam))
        assert float(got) == pytest.approx(wanted)


def test_a_fleet_talks_at_the_tenth_round_and_every_ten_from_there():
    assert [t for t in range(1, 35) if gfpl.talks(turn(t))] == [10, 20, 30]
    assert [t for t in range(1, 9) if gfpl.talks(turn(t, start=3, interval=2))] == [3, 5, 7]
    assert not any(gfpl.talks(turn(t, pseudo=0)) for t in range(1, 35))


def test_every_device_derives_the_same_vectors_and_another_fleet_others():
    one, two = (
        gfpl.scorers(turn(t, agent), None, {})["prototype"] for t, agent in ((1, "a"), (7, "b"))
    )
    assert one.prototypes == two.prototypes
    assert one.through == "project"
    assert one.metric == "cosine"
    other = Turn(replace(CONTRACT, seed=1), gfpl.Hyper(), 1)
    assert gfpl.scorers(other, None, {})["prototype"].prototypes != one.prototypes
    assert gfpl.heads(turn())["project"].out == 2
    assert gfpl.heads(turn(dim=9))["project"].out == 9
    with pytest.raises(SettingError):
        gfpl.heads(turn(dim=1))


def upload(agent, classes, means, variances, counts, weights=None):
    weights = [1.0] * len(classes) if weights is None else weights
    return Upload(agent, 10, "", {"mixtures": Mixtures(classes, weights, means, variances, counts)})


def test_near_components_become_one_with_their_moments_and_far_ones_stay():
    ups = [
        upload(
            "a", [0, 0], [[0, 0], [40, 0]], [[1, 1], [1, 1]], [8], [0.75, 0.25]
        ),  # masses 6 and 2
        upload(
            "b", [0, 1], [[2, 0], [5, 5]], [[1, 3], [1, 1]], [2, 7]
        ),  # mass 2; distance 4/8 + ½ ln(2/√3) = 0.57
    ]
    fused = fuse_round(gfpl.recipe, turn(), GlobalState(), ups).shared["mixtures"]
    assert fused.classes.tolist() == [0, 0, 1]
    assert fused.counts.tolist() == [10, 7]
    np.testing.assert_allclose(fused.weights, [0.8, 0.2, 1])
    np.testing.assert_allclose(fused.means, [[0.5, 0], [40, 0], [5, 5]])
    np.testing.assert_allclose(
        fused.variances, [[1 + 0.75, 1.5], [1, 1], [1, 1]]
    )  # 6/8 · 0.25 + 2/8 · 2.25 = 0.75
    apart = fuse_round(gfpl.recipe, turn(threshold=0.5), GlobalState(), ups).shared["mixtures"]
    assert apart.classes.tolist() == [0, 0, 0, 1]
    np.testing.assert_allclose(apart.weights, [0.6, 0.2, 0.2, 1])


def test_mixtures_of_another_fleet_are_refused():
    for strange in (
        upload("a", [2], [[0, 0]], [[1, 1]], [1]),
        upload("a", [0], [[0, 0, 0]], [[1, 1, 1]], [1]),
    ):
        with pytest.raises(FusionError, match="not of this fleet"):
            fuse_round(gfpl.recipe, turn(), GlobalState(), [strange])


def test_retraining_brings_as_many_pseudo_features_of_every_class_and_spares_the_extractor():
    known = Mixtures([0, 1], [1, 1], [[0, 0], [50, 50]], np.ones((2, 2)), [90, 1])
    (phase,) = gfpl.adapt(turn(agent="a"), None, {"mixtures": known})
    x, y = phase.data
    assert np.bincount(y).tolist() == [16, 16]
    assert x[y == 1].min() > 40
    assert x[y == 0].max() < 10
    assert phase.train == ("project", "head")
    assert phase.epochs == 1
    assert not np.array_equal(x, gfpl.adapt(turn(agent="b"), None, {"mixtures": known})[0].data[0])
    assert list(gfpl.adapt(turn(), None, {})) == []


def test_algorithm_2_retrains_after_every_batch_of_a_round_of_exchange_that_has_mixtures():
    known = {"mixtures": Mixtures([0, 1], [1, 1], [[0, 0], [50, 50]], np.ones((2, 2)), [90, 1])}

    def between(round, state, **hyper):
        (phase,) = gfpl.train(turn(round, retrain="batch", **hyper), None, state)
        assert phase.loss is gfpl.loss
        assert phase.data is None
        return phase.between

    assert between(10, {}) is None  # the first exchange: nothing has come yet
    assert between(15, known) is None  # a round of local training
    retraining = between(20, known, passes=3)
    assert (retraining.loss, retraining.train) == (gfpl.retrain, ("project", "head"))
    assert retraining.epochs == 3
    draws = [retraining.data(np.random.default_rng(seed)) for seed in (0, 1)]
    for x, y in draws:
        assert np.bincount(y).tolist() == [16, 16]
        assert x[y == 1].min() > 40
        assert x[y == 0].max() < 10
    assert not np.array_equal(draws[0][0], draws[1][0])
    # Either or: on arrival nothing is left to do, and by default nothing stands between.
    assert list(gfpl.adapt(turn(20, retrain="batch"), None, known)) == []
    assert gfpl.train(turn(20), None, known)[0].between is None


def last_row(small_lab, *settings):
    setup = prepare(small_lab("gfpl", ("start=1", "interval=1", *settings)))
    return run(setup, LabOptions(), lambda row: None).rows[-1]


def test_without_pseudo_features_both_ways_are_plain_training(small_lab):
    plain, batch = (last_row(small_lab, "pseudo=0", f"retrain={w}") for w in ("exchange", "batch"))
    assert plain.per_agent == batch.per_agent
    assert last_row(small_lab).per_agent != last_row(small_lab, "retrain=batch").per_agent
