"""The simplex frame against its defining products (GFPL (3))."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protofleet.errors import SettingError
from protofleet.toolbox.etf import simplex
from protofleet.util import seeds


@given(n_classes=st.integers(2, 40), extra=st.integers(0, 30), seed=st.integers(0, 99))
def test_any_two_vectors_are_equally_far_apart_and_of_length_one(n_classes, extra, seed):
    frame = simplex(n_classes, n_classes + extra, seeds.generator(seed))
    k = n_classes
    wanted = k / (k - 1) * np.eye(k) - 1 / (k - 1)  # formula 3
    np.testing.assert_allclose(frame.astype(float) @ frame.T, wanted, atol=1e-6)
    np.testing.assert_allclose(frame.sum(0), 0, atol=1e-5)


def test_a_frame_depends_on_its_generator_only():
    one, two, other = (simplex(5, 8, seeds.generator(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, two)
    assert np.abs(one - other).max() > 0.1


def test_it_is_the_formula_on_the_decomposition_with_a_positive_diagonal():
    q, r = np.linalg.qr(seeds.generator(3).standard_normal((6, 4)))
    q = q @ np.diag(np.sign(np.diag(r)))
    wanted = np.sqrt(4 / 3) * q @ (np.eye(4) - np.ones((4, 4)) / 4)  # formulas 9 and 10
    np.testing.assert_allclose(simplex(4, 6, seeds.generator(3)), wanted.T, atol=1e-6)


def test_one_class_is_a_unit_vector_and_too_few_dimensions_are_refused():
    assert np.linalg.norm(simplex(1, 3, seeds.generator(0))) == pytest.approx(1)
    with pytest.raises(SettingError, match="at least 5"):
        simplex(5, 4, seeds.generator(0))
