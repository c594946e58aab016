"""Parts survive the wire within the precision they travel in, and equal parts have equal bytes."""

from __future__ import annotations

import struct
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from protofleet import wire
from protofleet.errors import WireError
from protofleet.values.prototypes import Head, Mixtures, Parts, Prototypes, SoftLabels, Tensors
from tests.protofleet import strategies

ROUNDED = {(Prototypes, "vectors"), (Mixtures, "means")}
precisions = st.sampled_from(["half", "float32", "int8"])


def fields(parts: Parts):
    """Every array of the parts, with whether it travels in the fleet's precision."""
    for name, part in parts.items():
        arrays = part.arrays if isinstance(part, Tensors) else vars(part)
        for field, array in arrays.items():
            yield name, field, array, (type(part), field) in ROUNDED


def error_bound(array, precision: str):
    """How far an array of one or more dimensions may move."""
    if precision == "float32" or not array.size or array.ndim == 0:
        return 0
    if precision == "int8" and array.ndim == 2:
        peaks = np.abs(array.astype(np.float64)).max(axis=1, keepdims=True)
        return np.broadcast_to(peaks / 254 * 1.0001 + 1e-30, array.shape)
    if precision == "half" and np.abs(array).max() <= 60_000:
        return np.abs(array.astype(np.float64)) * 2.0**-11 + 2.0**-25
    return 0


@given(strategies.parts(peak=3e38), precisions)
def test_round_trip_within_precision(parts, precision):
    got = wire.as_received(parts, precision)
    assert got.keys() == parts.keys()
    for (_, _, sent, rounded), (_, _, received, _) in zip(
        fields({n: parts[n] for n in got}), fields(got), strict=True
    ):
        if sent is None:
            assert received is None
            continue
        assert received.dtype == sent.dtype
        assert received.shape == sent.shape
        if sent.dtype.kind == "i" or not rounded or precision == "float32":
            assert np.array_equal(received, sent)
        else:
            bound = error_bound(sent, precision)
            assert (np.abs(received.astype(np.float64) - sent) <= bound).all()


@given(strategies.parts(peak=3e38), precisions)
@example({"p": Prototypes([0], [[127 * 2.0**120 - 2.0**105]])}, "int8")
@example({"p": Prototypes([0], [[59_999]])}, "half")
def test_encoding_what_was_received_changes_nothing(parts, precision):
    data = wire.encode_parts(parts, precision)
    received = wire.decode_parts(data)
    assert wire.encode_parts(received, precision) == data
    assert wire.digest(received) == wire.digest(wire.as_received(received, precision))


@given(strategies.parts())
def test_digest_is_of_content_not_of_order_or_transport(parts):
    reversed_order = dict(reversed(parts.items()))
    assert wire.digest(parts) == wire.digest(reversed_order)
    assert wire.digest(wire.as_received(parts, "float32")) == wire.digest(parts)


def test_digest_by_hand():
    """As docs/wire.md tells another language to compute it."""
    by_hand = (
        b"\xa2"  # two parts
        b"\x61p\xa4"  # "p": four fields, shorter keys first
        b"\x64kind\x6aprototypes"
        b"\x66counts\xd8\x4f\x50" + struct.pack("<qq", 2, 300) + b"\x67classes\xd8\x40\x42\x01\x03"
        b"\x67vectors\xd8\x28\x82\x82\x02\x02\xd8\x55\x50"
        + struct.pack("<ffff", 0.1, 2, 1.5, 0.0)
        + b"\x61t\xa2"
        b"\x64kind\x67tensors"
        b"\x66arrays\xa1\x65steps\xd8\x28\x82\x80\xd8\x40\x41\x07"
    )
    parts = {
        "p": Prototypes([3, 1], [[1.5, -0.0], [0.1, 2]], [300, 2]),
        "t": Tensors({"steps": np.array(7)}),
    }
    assert wire.digest(parts) == sha256(by_hand).hexdigest()
    assert wire.encode_parts(parts, "float32") == by_hand
    assert wire.digest(parts) == "df1d1caeeebf4a140e80ff4033a8ab9352099b202e38840b0b3e75efcebe6ac9"
    assert wire.digest({}) == sha256(b"\xa0").hexdigest()


@given(strategies.tensors(), precisions)
def test_exceptions_name_the_precision_of_a_part(tensors, precision):
    got = wire.as_received({"t": tensors}, "float32", {"t": precision, "absent": "half"})["t"]
    for name, sent in tensors.arrays.items():
        if sent.dtype.kind == "i":
            assert np.array_equal(got[name], sent)
        else:
            assert (
                np.abs(got[name].astype(np.float64) - sent) <= error_bound(sent, precision)
            ).all()


@pytest.mark.parametrize(
    ("part", "precision", "words"),
    [
        (
            Mixtures([0], [1], [[1]], [[1e-9]], [3]),
            "half",
            "parts.x.variances: a variance is not positive",
        ),
        (
            SoftLabels([0], [[0.5] + [0.5 / 998] * 998]),
            "int8",
            "parts.x.probabilities: a row does not sum to one",
        ),
    ],
)
def test_rounding_that_breaks_a_promise_is_refused_by_the_sender(part, precision, words):
    assert wire.as_received({"x": part}, precision)
    with pytest.raises(WireError, match=words):
        wire.encode_parts({"x": part}, exceptions={"x": precision})


def test_half_falls_back_where_it_would_overflow():
    parts = {"p": Prototypes([0], [[60_001, 0.1]])}
    assert wire.as_received(parts) == parts


def test_no_negative_zero_leaves():
    data = wire.encode_parts({"p": Prototypes([0], [[-1e-9, 1]])})
    assert b"\x00\x80" not in data[-40:]
    assert wire.encode_parts({"p": Prototypes([0], [[0.0, 1]])}) == data


def test_points_are_half_and_sums_are_not():
    third = np.float32(1 / 3)
    parts = {"h": Head([0], [[third]], [third]), "p": Prototypes([0], [[third]])}
    got = wire.as_received(parts)
    assert got["h"] == parts["h"]
    assert got["p"].vectors[0, 0] == np.float16(third)


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (Prototypes([65_536], [[1]]), "parts.p.classes: class 65536, ids are below 65536"),
        (Prototypes([4] * 65, np.ones((65, 1))), "parts.p.classes: class 4 has more than 64 rows"),
        (
            Prototypes([0], np.ones((1, 8_193))),
            "parts.p.vectors: rows of 8193 values, at most 8192 are allowed",
        ),
        (
            Mixtures([2] * 65, [1 / 65] * 65, np.ones((65, 1)), np.ones((65, 1)), [9]),
            "class 2 has more than 64 rows",
        ),
        (Tensors({"x" * 257: np.ones(1)}), "text of 257 bytes, at most 256 are allowed"),
        (
            Tensors({"x": np.ones((1,) * 9)}),
            "parts.p.arrays.x: 9 dimensions, at most 8 are allowed",
        ),
        (Tensors({"\ud800": np.ones(1)}), "parts: "),
        ([1], "parts.p: list is not a part"),
    ],
)
def test_limits_bind_the_sender_too(part, words):
    with pytest.raises(WireError, match=words):
        wire.encode_parts({"p": part})


def test_unknown_precision():
    with pytest.raises(WireError, match="precision 'bfloat' is none of half, float32, int8"):
        wire.encode_parts({}, "bfloat")


def test_limits_are_settings():
    parts = {"p": Prototypes([7] * 65, np.ones((65, 3)))}
    wide = wire.Limits(per_class=65)
    assert wire.decode_parts(wire.encode_parts(parts, limits=wide), wide) == parts
    with pytest.raises(WireError, match="more than 64 rows"):
        wire.decode_parts(wire.encode_parts(parts, limits=wide))
