"""Counts say how sure is sure, and they add up."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from protofleet.errors import SettingError
from protofleet.statistics.held_out import CONFIDENCES, ODDITIES, HeldOut
from protofleet.statistics.reliability import (
    ENOUGH,
    Calibration,
    Reliability,
    calibration,
    reliability,
    softmax,
)


def drawn(seed, n, sharp=3.0, classes=5):
    """Scores that are too sure by a factor of `sharp`."""
    rng = np.random.default_rng(seed)
    true = rng.normal(size=(n, classes)) * 1.5
    labels = np.array([rng.choice(classes, p=row) for row in softmax(true)])
    return HeldOut(true * sharp, labels, np.ones(n))


def error(probability, right, bins=15):
    at = np.minimum((probability * bins).astype(int), bins - 1)
    parts = [at == i for i in range(bins)]
    return sum(
        part.mean() * abs(probability[part].mean() - right[part].mean())
        for part in parts
        if part.any()
    )


def test_the_right_temperature_is_calibrated_and_enough_counts_mend_a_wrong_one():
    out, fresh = drawn(1, 4000), drawn(2, 4000)
    right = fresh.scores.argmax(1) == fresh.labels
    good = calibration(reliability(out, 3.0), 3.0).probability(fresh.scores)
    mended = calibration(reliability(out, 1.0), 1.0).probability(fresh.scores)
    plain = softmax(fresh.scores).max(1)
    assert error(good, right) < 0.03
    assert error(mended, right) < 0.03 < error(plain, right)


def test_few_counts_leave_the_softmax_as_it_is():
    out = drawn(3, ENOUGH - 1)
    found = calibration(reliability(out, 3.0), 3.0)
    assert found.probability(out.scores) == pytest.approx(softmax(out.scores / 3.0).max(1))


def test_the_map_is_the_isotonic_regression_of_the_bins():
    counts = reliability(drawn(4, 3000), 1.7)
    at = np.flatnonzero(counts.total)
    middles = (at + 0.5) / CONFIDENCES
    theirs = IsotonicRegression().fit_transform(
        middles, counts.right[at] / counts.total[at], sample_weight=counts.total[at]
    )
    found = calibration(counts, 1.7)
    assert found.confidences == pytest.approx(middles)
    assert found.probabilities == pytest.approx(theirs)


@given(st.integers(0, 20), st.sampled_from([0.01, 0.05, 0.2]))
def test_as_many_false_alarms_as_were_asked_for(seed, share):
    out = drawn(seed, 2000)
    found = calibration(reliability(out, 2.0), 2.0, share)
    assert found.unknown(out.scores).mean() == pytest.approx(share, abs=0.01)


def test_histograms_add_up():
    one, two = drawn(5, 30), drawn(6, 50)
    both = HeldOut(
        np.concatenate([one.scores, two.scores]), np.concatenate([one.labels, two.labels]), None
    )
    added, whole = reliability(one, 2.0).plus(reliability(two, 2.0)), reliability(both, 2.0)
    for name in ("total", "right", "odd"):
        assert np.array_equal(getattr(added, name), getattr(whole, name))


def test_nobody_left_out_knows_nothing():
    empty = HeldOut(np.zeros((0, 3)), np.zeros(0, np.int64), np.zeros(0))
    found = calibration(reliability(empty, 2.0), 2.0)
    assert found == Calibration(2.0)
    assert not found.unknown(np.full((2, 3), -1e9)).any()
    assert isinstance(reliability(empty, 2.0), Reliability)


def test_what_scores_far_above_everything_is_unknown_too():
    out = drawn(7, 500)
    found = calibration(reliability(out, 2.0), 2.0)
    best = out.scores.max(1).max()
    assert found.unknown([[best * 3, 0.0], [best, 0.0]]).tolist() == [True, False]


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": 0.0},
        {"temperature": float("inf")},
        {"temperature": 1e-320},  # by which every score is infinite
        {"shrinkage": -1.0},
        {"distance": -1.0},
        {"samples": -1},
        {"confidences": (0.1,)},
        {"confidences": (0.5, 0.1), "probabilities": (0.1, 0.2)},
        {"confidences": (0.5,), "probabilities": (1.5,)},
        {"usual": (1.0,)},
        {"usual": (2.0, 1.0)},
    ],
)
def test_a_calibration_that_contradicts_itself_is_refused(wrong):
    with pytest.raises(SettingError):
        Calibration(**({"temperature": 1.0} | wrong))


def test_every_class_has_its_share_and_the_best_has_the_measured_one():
    out = drawn(8, 3000)
    found = calibration(reliability(out, 1.0), 1.0)
    shares = found.shares(out.scores)
    assert np.array_equal(shares.max(1), found.probability(out.scores))
    best = shares[np.arange(len(shares)), out.scores.argmax(1)]
    assert np.array_equal(best, shares.max(1))
    assert shares.sum(1).max() == pytest.approx(1)
    # One that is no surer than its neighbour leaves more than its neighbour may have.
    assert shares.sum(1).min() < 1
    assert (found.shares(np.array([[1.0], [900.0]])) <= 1).all()


def test_samples_that_are_all_alike_are_usual():
    odd = np.zeros(ODDITIES, np.int64)
    odd[[190, 191]] = 90, 10
    sure = Reliability(np.bincount([5], [100], CONFIDENCES), np.zeros(CONFIDENCES), odd)
    low, high = calibration(sure, 1.0).usual
    assert low < high
