"""fleet against scikit-learn's discriminant analysis, and against all the samples in one place."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from coordinator.uploads.fuse import fuse_round
from protofleet.contract import Contract, Input
from protofleet.errors import FusionError
from protofleet.exchange.state import GlobalState, Upload
from protofleet.methods import fleet
from protofleet.recipe import Features, Turn
from protofleet.values.nearest import head_scores
from protofleet.values.prototypes import Prototypes, Tensors

D, C = 6, 4
CONTRACT = Contract("f", "r", 0, ("a", "b", "c", "d"), Input("vector", (D,)), D)


class Device:
    """A learner whose features are its samples."""

    def __init__(self, x, y, name="one"):
        self.x, self.y, self.agent, self.samples, self.memory = x, y, name, len(y), {}

    def features(self, *, low=False):
        return Features(self.x, np.zeros((len(self.y), C), np.float32), self.y)


def turn(round=1, **hyper):
    return Turn(CONTRACT, fleet.Hyper(**({"ridge": 1e-6} | hyper)), round)


@pytest.fixture
def samples():
    rng = np.random.default_rng(3)
    y = np.concatenate([np.arange(C), rng.integers(0, C, 300)])
    mixing = rng.standard_normal((D, D))
    x = (rng.standard_normal((len(y), D)) + 2 * rng.standard_normal((C, D))[y]) @ mixing
    return x.astype(np.float32), y


def fused(devices, before=None, round=1, **hyper):
    at = turn(round, **hyper)
    uploads = [Upload(d.agent, round, "", fleet.summarise(at, d, {})) for d in devices]
    return fuse_round(fleet.recipe, at, before or GlobalState(), uploads)


def dealt(x, y, parts=5):
    cut = np.random.default_rng(0).integers(0, parts, len(y))
    return [Device(x[cut == i], y[cut == i], f"d{i}") for i in range(parts)]


def test_devices_together_are_scikit_learns_discriminant_analysis_of_all_samples(samples):
    x, y = samples
    head = fused(dealt(x, y)).shared["head"]
    theirs = LinearDiscriminantAnalysis(solver="lsqr", priors=np.full(C, 1 / C)).fit(x, y)
    ours = head_scores(x, head, C)
    assert (ours.argmax(1) == theirs.predict(x)).mean() > 0.995
    logits = theirs.decision_function(x)
    apart = (ours - ours.mean(1, keepdims=True)) - (logits - logits.mean(1, keepdims=True))
    assert np.abs(apart).max() < 0.05 * np.abs(logits).max()


def test_however_samples_are_dealt_out_the_state_is_that_of_one_place(samples):
    x, y = samples
    by_class = [Device(x[y == c], y[y == c], f"d{c}") for c in range(C)]
    one = fused([Device(x, y)]).shared["head"]
    for devices in (dealt(x, y), by_class):
        head = fused(devices).shared["head"]
        np.testing.assert_allclose(
            head.weight, one.weight, rtol=2e-2, atol=2e-2 * np.abs(one.weight).max()
        )


def test_a_spread_is_sent_once_and_again_when_the_samples_change(samples):
    device = Device(*samples)
    assert set(fleet.summarise(turn(), device, {})) == {"prototypes", "spread"}
    assert set(fleet.summarise(turn(11), device, {})) == {"prototypes"}
    device.x = device.x[1:]
    device.y = device.y[1:]
    assert set(fleet.summarise(turn(21), device, {})) == {"prototypes", "spread"}


def test_rounds_between_exchanges_say_nothing(samples):
    assert [r for r in range(1, 32) if fleet.talks(turn(r))] == [1, 11, 21, 31]
    assert fleet.summarise(turn(2), Device(*samples), {}) == {}


def test_a_class_whose_devices_are_silent_stays_known(samples):
    x, y = samples
    first = fused([Device(x[y < 2], y[y < 2], "low"), Device(x[y >= 2], y[y >= 2], "high")])
    after = fused([Device(x[y < 2], y[y < 2], "low")], first, 11)
    assert after.shared["head"].classes.tolist() == [0, 1, 2, 3]
    scores = head_scores(x, after.shared["head"], C)
    assert (scores.argmax(1) == y).mean() > 0.8


def test_the_same_devices_again_change_nothing_but_rounding(samples):
    x, y = samples
    devices = dealt(x, y)
    first = fused(devices)
    again = fused(devices, first, 11)
    np.testing.assert_allclose(
        again.shared["head"].weight, first.shared["head"].weight, rtol=1e-3, atol=1e-3
    )


def test_a_device_expects_the_classes_that_it_has(samples):
    x, y = samples
    head = fused(dealt(x, y)).shared["head"]
    mine = Device(x[y == 2][:9], y[y == 2][:9])
    rows = fleet.scorers(turn(temper=2.0, smooth=0.5), mine, {"head": head})["prototype"].rows
    np.testing.assert_allclose(rows.weight, head.weight / 2)
    want = np.log(np.array([0.5, 0.5, 9.5, 0.5]) / 11)
    np.testing.assert_allclose(rows.bias - head.bias / 2, want, atol=1e-4)
    nobody = Device(x[:0], y[:0])
    rows = fleet.scorers(turn(temper=2.0, smooth=0.5), nobody, {"head": head})["prototype"].rows
    np.testing.assert_allclose(rows.bias - head.bias / 2, np.log(0.25), atol=1e-4)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({}, "'prototypes' is missing"),
        ({"prototypes": Prototypes([0], np.zeros((1, D)))}, "counts are due"),
        ({"prototypes": Prototypes([0], np.zeros((1, D + 1)), [3])}, "embedding size"),
        (
            {
                "prototypes": Prototypes([0], np.zeros((1, D)), [3]),
                "spread": Tensors({"spread": np.zeros(3)}),
            },
            "upper triangle of 6 × 6",
        ),
    ],
)
def test_an_upload_of_another_shape_is_refused(parts, words):
    with pytest.raises(FusionError, match=words):
        fleet.fold(turn(), Upload("a", 1, "", parts), 1)


def test_one_sample_and_no_spread_still_make_a_classifier():
    lone = Device(np.ones((1, D), np.float32), np.array([1]))
    head = fused([lone]).shared["head"]
    assert head.classes.tolist() == [1]
    assert np.isfinite(head.weight).all()
