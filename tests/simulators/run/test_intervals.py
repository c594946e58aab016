"""Intervals and paired differences against scipy's own tests."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from simulators.run.intervals import difference, interval

VALUES = st.floats(0, 1).map(lambda x: round(x, 4))


@given(st.lists(st.tuples(VALUES, VALUES), min_size=2, max_size=9))
def test_the_interval_is_that_of_the_paired_t_test(pairs):
    ours, theirs = zip(*pairs, strict=True)
    found = difference(ours, theirs)
    assert found.mean == pytest.approx(np.mean(ours) - np.mean(theirs), abs=1e-12)
    if np.ptp(np.subtract(ours, theirs)) > 1e-9:
        test = stats.ttest_rel(ours, theirs)
        ends = test.confidence_interval(0.95)
        assert (found.low, found.high) == (pytest.approx(ends.low), pytest.approx(ends.high))
        assert found.p == pytest.approx(test.pvalue)
    assert found.above == (found.low > 0)


def test_one_pair_says_nothing():
    assert not difference([0.9], [0.1]).above


@given(st.lists(VALUES, min_size=2, max_size=9))
def test_the_interval_of_a_mean_is_that_of_one_sample(values):
    found = interval(values)
    if np.ptp(values) > 1e-9:
        ends = stats.ttest_1samp(values, 0).confidence_interval(0.95)
        assert (found.mean - found.half, found.mean + found.half) == (
            pytest.approx(ends.low),
            pytest.approx(ends.high),
        )
