"""Class means against a loop over classes, in any order of the samples."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from protofleet.toolbox import summaries
from protofleet.values.prototypes import Prototypes


def problem(seed, n, classes=5, d=3):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)).astype(np.float32), rng.integers(0, classes, n)


@given(st.integers(0, 999), st.integers(1, 40))
def test_a_mean_a_class_that_is_there_and_how_many_are_behind_it(seed, n):
    x, y = problem(seed, n)
    means = summaries.class_means(x, y)
    assert means.classes.tolist() == sorted(set(y.tolist()))
    assert means.counts.tolist() == [(y == c).sum() for c in means.classes]
    expected = [x[y == c].astype(np.float64).mean(0) for c in means.classes]
    np.testing.assert_allclose(means.vectors, expected, rtol=1e-6, atol=1e-7)


@given(st.integers(0, 999), st.integers(1, 40))
def test_how_classes_are_mixed_does_not_matter_to_the_bit(seed, n):
    # Samples of a class stay in their order; only which class comes between them changes.
    x, y = problem(seed, n)
    by_class = np.argsort(y, kind="stable")
    assert summaries.class_means(x, y) == summaries.class_means(x[by_class], y[by_class])


def test_private_counts_stay_private():
    assert summaries.class_means(np.ones((3, 2)), [1, 1, 4], counts=False) == Prototypes(
        [1, 4], np.ones((2, 2))
    )


def test_many_large_values_do_not_lose_the_small_ones():
    # A running sum in float32 drops the halves from 2²⁴ on, after a sixteenth of these.
    x = np.full((2**16, 1), 2.0**12 + 0.5, np.float32)
    assert summaries.class_means(x, np.zeros(2**16, np.int64)).vectors.item() == 2.0**12 + 0.5


@given(st.integers(0, 999), st.integers(0, 9))
def test_units_have_length_one_and_their_direction(seed, n):
    x, _ = problem(seed, n)
    unit = summaries.units(x)
    assert unit.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(unit * np.linalg.norm(x, axis=1, keepdims=True), x, rtol=1e-5)


def test_a_row_of_zeros_stays_zeros():
    assert summaries.units(np.zeros((2, 3), np.float32)).tolist() == [[0, 0, 0]] * 2


def test_a_sample_count_is_a_whole_number():
    samples = summaries.sample_count(2**40 + 1)["samples"]
    assert int(samples) == 2**40 + 1
