"""Arrays as CBOR values: the dtype each travels in, and the bits that come back."""

import cbor2
import numpy as np
import pytest
from cbor2 import CBORTag
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from protofleet.errors import WireError
from protofleet.wire.arrays import (
    HALF_PEAK,
    INT8_LEAST,
    INT8_PEAK,
    decode_array,
    encode_array,
    widened,
    wire_dtype,
)

shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


def through(array, precision):
    raw = encode_array(np.asarray(array), precision, "x")
    return decode_array(cbor2.loads(cbor2.dumps(raw)), "x"), wire_dtype(raw)


@given(hnp.arrays(np.int64, shapes, elements=st.integers(-(2**63), 2**63 - 1)))
def test_whole_numbers_stay_exact_in_any_precision(array):
    for precision in ("half", "float32", "int8"):
        again, name = through(array, precision)
        assert np.array_equal(again, array)
        assert again.shape == array.shape
        assert name == (
            "uint8" if not array.size or 0 <= array.min() <= array.max() < 256 else "int64"
        )


@given(
    hnp.arrays(
        np.float32, shapes, elements=st.floats(width=32, allow_nan=False, allow_infinity=False)
    )
)
def test_float32_comes_back_to_the_bit_but_for_negative_zero(array):
    again, name = through(array, "float32")
    assert name == "float32"
    assert np.array_equal((array + np.float32(0)).view("<u4"), again.view("<u4"))


def test_every_half_there_is_widens_as_numpy_widens_it_but_for_the_sign_of_zero():
    halves = np.arange(2**16, dtype="<u2").view("<f2")
    wide = halves.astype(np.float32)
    wide[wide == 0] = 0.0
    assert np.array_equal(widened(halves).view("<u4"), wide.view("<u4"))
    assert not np.signbit(widened(np.array([-0.0], "<f4"))).any()


@given(st.floats(-HALF_PEAK, HALF_PEAK, width=32))
def test_half_is_off_by_two_to_the_minus_eleven_at_most(x):
    again, name = through([x], "half")
    assert name == "float16"
    assert abs(again[0] - x) <= max(abs(x) * 2.0**-11, 2.0**-25)
    assert not np.signbit(again[0]) or again[0] < 0  # no −0.0 leaves


def test_what_half_cannot_hold_goes_as_float32():
    assert through([HALF_PEAK], "half")[1] == "float16"
    assert through([HALF_PEAK * 1.01], "half")[1] == "float32"
    assert through(np.float32(3.3), "half") == (np.float32(3.3), "float32")  # one number: exactly


rows = hnp.arrays(
    np.float32,
    hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=5),
    elements=st.floats(-(2.0**100), 2.0**100, width=32),
)


@given(rows)
def test_int8_is_off_by_half_a_step_of_its_row_and_stable(array):
    again, name = through(array, "int8")
    assert name == "int8 rows"
    peaks = np.abs(array).max(axis=1, initial=0.0, keepdims=True).astype(np.float64)
    step = np.where(peaks < INT8_LEAST, 2 * INT8_LEAST, peaks / 127) * (1 + 2.0**-15)
    assert (np.abs(again.astype(np.float64) - array) <= step / 2 * (1 + 1e-6)).all()
    assert np.array_equal(through(again, "int8")[0], again)


def test_rows_beyond_what_scales_can_say_go_as_float32():
    assert through([[np.float32(INT8_PEAK)]], "int8")[1] == "int8 rows"
    assert through([[3e38]], "int8")[1] == "float32"
    assert through([1.0], "int8")[1] == "float32"  # no rows


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (3, "x: not an array"),
        (CBORTag(84, b"abc"), "x: 3 bytes are no whole number of float16 values"),
        (CBORTag(72, b"abc"), "x: int8 travels as q with its scales s"),
        (CBORTag(40, [[2, 2]]), "an array of dims and values has 1 members"),
        (CBORTag(40, [[3], CBORTag(64, b"abc")]), "1 dims, 0 or 2 to 8 are allowed"),
        (CBORTag(40, [[2, 2], CBORTag(64, b"abc")]), r"3 values for dims \[2, 2\]"),
        (CBORTag(40, [[0, 2**62], CBORTag(64, b"")]), "0 values for dims"),
        ({"q": CBORTag(72, b"abc")}, "the keys q and s and no others"),
        ({"q": CBORTag(64, b"abc"), "s": CBORTag(85, b"")}, "q is not int8"),
        ({"q": CBORTag(72, b"abc"), "s": CBORTag(85, b"\0" * 4)}, "1 scales for an array"),
    ],
)
def test_what_is_no_array_is_refused_by_name(raw, words):
    with pytest.raises(WireError, match=words):
        decode_array(raw, "x")


def test_more_axes_than_anyone_needs_are_refused():
    with pytest.raises(WireError, match="9 dimensions, at most 8 are allowed"):
        encode_array(np.zeros((1,) * 9), "half", "x")
