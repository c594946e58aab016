import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from protofleet.budget.clipping import POINT, clipped

rows = arrays(np.float32, (3, 7), elements=st.floats(-1e4, 1e4, width=32))


@settings(max_examples=50)
@given(rows, st.floats(0.01, 100))
def test_no_row_is_longer_than_the_norm_and_none_grows(values, norm):
    steps = clipped(values, norm)
    lengths = np.linalg.norm(steps * 2.0**-POINT, axis=1)
    assert np.all(lengths <= norm)
    assert np.all(lengths <= np.linalg.norm(values.astype(np.float64), axis=1))


@given(rows)
def test_what_is_short_enough_is_only_rounded(values):
    steps = clipped(values, 1e6)
    assert np.all(np.abs(steps * 2.0**-POINT - values) < 2.0**-POINT)
    assert np.all(steps * values >= 0)
