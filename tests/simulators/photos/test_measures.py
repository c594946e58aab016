"""Figures of merit beside scikit-learn's, and by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from simulators.photos.measures import auroc, calibration_error, harmonic


@given(st.integers(0, 100))
def test_auroc_is_scikit_learns_also_with_ties(seed):
    rng = np.random.default_rng(seed)
    odd, usual = rng.integers(0, 9, 30).astype(float), rng.integers(0, 7, 50).astype(float)
    truth = np.repeat([1, 0], [30, 50])
    assert auroc(odd, usual) == pytest.approx(roc_auc_score(truth, np.append(odd, usual)))


def test_calibration_error_by_hand():
    said = np.array([0.95, 0.95, 0.95, 0.95, 0.5])
    right = np.array([True, True, True, False, True])
    assert calibration_error(said, right) == pytest.approx((4 * 0.2 + 0.5) / 5)


def test_a_harmonic_mean_is_small_where_either_is():
    assert harmonic(0.5, 1.0) == pytest.approx(2 / 3)
    assert harmonic(0.0, 0.0) == 0
