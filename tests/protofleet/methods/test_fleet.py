"""fleet against scikit-learn's discriminant analysis, and against all the samples in one place."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from coordinator.uploads.fuse import fuse_round
from protofleet.contract import Contract, Input
from protofleet.errors import FusionError
from protofleet.exchange import learned
from protofleet.exchange.state import GlobalState, Upload
from protofleet.methods import fleet
from protofleet.recipe import Features, Turn
from protofleet.statistics import contribution as contributions
from protofleet.statistics.prior import OwnPrior
from protofleet.statistics.reliability import softmax
from protofleet.values.nearest import head_scores
from protofleet.values.prototypes import Prototypes, Tensors

D, C = 6, 4
CONTRACT = Contract("f", "r", 0, ("a", "b", "c", "d"), Input("vector", (D,)), D)


def of_width(width):
    return contributions.contribution(np.eye(width), np.zeros(width), fleet.GRID)


class Device:
    """A learner whose features are its samples."""

    def __init__(self, x, y, name="one"):
        self.x, self.y, self.agent, self.samples, self.memory = x, y, name, len(y), {}

    def features(self, *, low=False):
        return Features(self.x, np.zeros((len(self.y), C), np.float32), self.y)


def turn(round=1, **hyper):
    return Turn(CONTRACT, fleet.Hyper(**hyper), round)


@pytest.fixture
def samples():
    rng = np.random.default_rng(3)
    y = np.concatenate([np.arange(C), rng.integers(0, C, 300)])
    mixing = rng.standard_normal((D, D))
    x = (rng.standard_normal((len(y), D)) + 2 * rng.standard_normal((C, D))[y]) @ mixing
    return x.astype(np.float32), y


def fused(devices, before=None, round=1, **hyper):
    at, state = turn(round, **hyper), before or GlobalState()
    uploads = [Upload(d.agent, round, "", fleet.summarise(at, d, state.shared)) for d in devices]
    return fuse_round(fleet.recipe, at, state, uploads)


def dealt(x, y, parts=5):
    cut = np.random.default_rng(0).integers(0, parts, len(y))
    return [Device(x[cut == i], y[cut == i], f"d{i}") for i in range(parts)]


def test_devices_together_are_scikit_learns_discriminant_analysis_of_all_samples(samples):
    x, y = samples
    devices = dealt(x, y)
    head = fused(devices, fused(devices), 2).shared["head"]
    theirs = LinearDiscriminantAnalysis(solver="lsqr", priors=np.full(C, 1 / C)).fit(x, y)
    assert (head_scores(x, head, C).argmax(1) == theirs.predict(x)).mean() > 0.995


def test_however_samples_are_dealt_out_the_state_is_that_of_one_place(samples):
    x, y = samples
    by_class = [Device(x[y == c], y[y == c], f"d{c}") for c in range(C)]
    one = fused([Device(x, y)]).shared["head"]
    for devices in (dealt(x, y), by_class):
        head = fused(devices).shared["head"]
        ours, theirs = head_scores(x, head, C), head_scores(x, one, C)
        assert (ours.argmax(1) == theirs.argmax(1)).mean() > 0.98


def test_a_device_contributes_once_and_then_counts_against_the_total(samples):
    devices = dealt(*samples)
    state = fused(devices)
    assert set(state.shared) == {"head", "means", "within", "calibration"}
    parts = [fleet.summarise(turn(2), device, state.shared) for device in devices]
    assert all(set(part) == {"counts"} for part in parts)
    late = Device(*samples, "late")
    assert set(fleet.summarise(turn(2), late, state.shared)) == {"prototypes", "scatter"}


def test_rounds_between_exchanges_say_nothing(samples):
    assert [r for r in range(1, 32) if fleet.talks(turn(r))] == [1, 2, 12, 22]
    assert fleet.summarise(turn(3), Device(*samples), {}) == {}


def test_a_newcomer_is_added_to_what_was_known(samples):
    x, y = samples
    first = fused([Device(x[y < 2], y[y < 2], "low")])
    after = fused([Device(x[y >= 2], y[y >= 2], "high")], first, 12)
    together = fused([Device(x[y < 2], y[y < 2], "low"), Device(x[y >= 2], y[y >= 2], "high")])
    assert after.sha256 == together.sha256


def test_classes_of_few_samples_are_not_spoken_of(samples):
    x, y = samples
    few = np.concatenate([np.flatnonzero(y == 0)[:4], np.flatnonzero(y == 1)[:5]])
    said = fleet.summarise(turn(), Device(x[few], y[few]), {})
    assert said["prototypes"].classes.tolist() == [1]
    assert fleet.summarise(turn(minimum=6), Device(x[few], y[few]), {}) == {}
    both = fleet.summarise(turn(minimum=1), Device(x[few], y[few]), {})
    assert both["prototypes"].counts.tolist() == [4, 5]


def test_a_device_expects_the_classes_that_it_has(samples):
    x, y = samples
    state = fused(dealt(x, y)).shared
    head, temper = state["head"], min(learned.calibration(state).temperature, 2.0)
    mine = Device(x[y == 2][:9], y[y == 2][:9])
    rows = fleet.scorers(turn(smooth=0.5), mine, state)["prototype"].rows
    np.testing.assert_allclose(rows.weight, head.weight / temper, rtol=1e-6)
    want = np.log(np.array([0.5, 0.5, 9.5, 0.5]) / 11)
    np.testing.assert_allclose(rows.bias - head.bias / temper, want, atol=1e-4)
    nobody = Device(x[:0], y[:0])
    assert fleet.scorers(turn(smooth=0.5), nobody, state)["prototype"].rows is head


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"prototypes": Prototypes([0], np.zeros((1, D)))}, "prototypes and scatter are due"),
        (contributions.parts_of(of_width(D + 1)), "not 6"),
        ({"counts": Tensors({"samples": np.array(3)})}, "are due"),
    ],
)
def test_an_upload_of_another_shape_is_refused(parts, words):
    with pytest.raises(FusionError, match=words):
        fleet.fold(turn(), Upload("a", 1, "", parts), 1)


def test_samples_of_one_class_still_make_a_classifier():
    lone = Device(np.ones((5, D), np.float32), np.full(5, 1))
    head = fused([lone]).shared["head"]
    assert head.classes.tolist() == [1]
    assert np.isfinite(head.weight).all()


def test_a_device_in_the_field_has_the_laboratorys_prior_to_four_digits(samples):
    x, y = samples
    devices = dealt(x, y)
    state = fused(devices, fused(devices), 2)
    own = Device(x[y < 2][:50], y[y < 2][:50])
    for smooth in (0.5, 2.0):
        scorer = fleet.scorers(turn(3, smooth=smooth), own, state.shared)["prototype"]
        lab = softmax(head_scores(x, scorer.rows, C).astype(np.float64))
        counts = dict(zip(CONTRACT.classes, np.bincount(own.y, minlength=C).tolist(), strict=True))
        plain = head_scores(x, state.shared["head"], C)
        sure = learned.calibration(state.shared)
        field = OwnPrior(counts, smooth).applied(plain, CONTRACT.classes, sure.temperature)
        assert np.abs(softmax(field) - lab).max() < 5e-5
        assert (field.argmax(1) != plain.argmax(1)).any()


def test_in_buckets_it_is_the_same_head_and_a_liar_and_its_counts_are_not_in_it(samples):
    x, y = samples

    def twice(*more, buckets):
        devices = [*dealt(x, y), *more]
        return fused(devices, fused(devices, buckets=buckets), 2, buckets=buckets)

    plain, apart = twice(buckets=1), twice(buckets=64)
    assert apart.shared == plain.shared
    assert apart.server != plain.server
    assert twice(Device(-x, y, "liar"), buckets=64).shared == plain.shared
    assert twice(Device(-x, y, "liar"), buckets=1).shared != plain.shared


def test_counts_that_are_made_up_decide_nothing_in_buckets(samples):
    x, y = samples

    def second(lies, buckets, counting=6):
        devices = [*dealt(x, y), Device(x[::4], y[::4], "liar")]
        at, first = turn(2, buckets=buckets), fused(devices, buckets=buckets)
        said = {d.agent: fleet.summarise(at, d, first.shared) for d in devices[:counting]}
        if lies:
            counted = said["liar"]["counts"]
            far = counted["distances"] * 0 + int(counted["samples"]) * 2**32
            said["liar"] = {"counts": Tensors({**counted.arrays, "distances": far})}
        uploads = [Upload(agent, 2, "", parts) for agent, parts in said.items()]
        return fuse_round(fleet.recipe, at, first, uploads).shared

    lied = second(True, 64)
    assert lied == second(False, 64, counting=5)
    assert second(False, 64) == second(False, 1)
    assert second(True, 1)["head"] != lied["head"]


def test_with_the_covariance_off_only_the_size_of_the_spread_is_sent_and_it_classifies(samples):
    x, y = samples
    said = fleet.summarise(turn(covariance="off"), Device(x, y), {})
    (size,) = set(said["scatter"]["residual"].tolist())
    off = sum(((x[y == c] - x[y == c].mean(0)) ** 2).sum() for c in range(C))
    assert (len(said["scatter"]["rows"]), size * D) == (0, pytest.approx(off, rel=0.01))
    devices = dealt(x, y)
    state = fused(devices, fused(devices, covariance="off"), 2, covariance="off")
    head, sure = state.shared["head"], learned.calibration(state.shared)
    assert sure.samples > 250  # held out, by statements that are even, too
    assert (head_scores(x, head, C).argmax(1) == y).mean() > 0.6
    assert contributions.from_parts(said).is_even
    assert not of_width(D).is_even
