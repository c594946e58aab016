"""Hand-made contradictions: each is refused, in words that name the field or the byte."""

from __future__ import annotations

import cbor2
import numpy as np
import pytest
from cbor2 import CBORTag
from hypothesis import given, settings
from hypothesis import strategies as st

from protofleet import wire
from protofleet.errors import WireError
from protofleet.wire import strict
from protofleet.wire.limits import DEFAULT


def prototypes(**changes) -> bytes:
    """A part named p with two prototypes, changed below the encoder; None takes a field away."""
    part = {
        "kind": "prototypes",
        "classes": CBORTag(64, b"\x00\x01"),
        "vectors": CBORTag(40, [[2, 2], CBORTag(84, np.ones(4, "<f2").tobytes())]),
        **changes,
    }
    return cbor2.dumps({"p": {k: v for k, v in part.items() if v is not None}}, canonical=True)


def vectors(*values: float, dims=(2, 2), tag: int = 85) -> CBORTag:
    dtype = {64: "u1", 72: "i1", 79: "<i8", 84: "<f2", 85: "<f4"}[tag]
    return CBORTag(40, [list(dims), CBORTag(tag, np.array(values, dtype).tobytes())])


SCALES = CBORTag(85, np.ones(2, "<f4").tobytes())
nan, inf = float("nan"), float("inf")


def test_the_unchanged_part_is_accepted():
    assert wire.decode_parts(prototypes())["p"].dim == 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"vectors": vectors(1, 2, 3, nan)}, r"parts.p.vectors\[1\]: 1 of 2 values is not finite"),
        (
            {"vectors": vectors(inf, nan, 1, 2)},
            r"parts.p.vectors\[0\]: 2 of 2 values are not finite",
        ),
        (
            {"vectors": vectors(1, inf, 3, 4, tag=84)},
            r"parts.p.vectors\[0\]: 1 of 2 values is not finite",
        ),
        ({"vectors": vectors(1, 2, 3)}, r"parts.p.vectors: 3 values for dims \[2, 2\]"),
        ({"vectors": vectors(dims=(0, 2**62))}, r"parts.p.vectors: 0 values for dims"),
        ({"vectors": vectors(dims=(0, 9000))}, r"parts.p.vectors: 0 vectors for 2 rows"),
        ({"vectors": vectors(1, 2, dims=(2, -1))}, "parts.p.vectors: dims are not a list of sizes"),
        (
            {"vectors": vectors(1, 2, dims=(2, True))},
            "parts.p.vectors: dims are not a list of sizes",
        ),
        ({"vectors": vectors(1, 2, dims=(2,))}, "parts.p.vectors: 1 dims"),
        ({"vectors": vectors(1, dims=[1] * 9)}, "parts.p.vectors: 9 dims"),
        ({"vectors": vectors(1, dims=[2**62] * 60_000)}, "parts.p.vectors: 60000 dims"),
        (
            {"vectors": CBORTag(40, [[1, 1]])},
            "parts.p.vectors: an array of dims and values has 1 members",
        ),
        ({"vectors": CBORTag(40, [[2, 2], [1, 2, 3, 4]])}, "parts.p.vectors: not an array"),
        ({"vectors": CBORTag(40, [[1], vectors(1, 2, 3, 4)])}, "parts.p.vectors: 1 dims"),
        (
            {"vectors": CBORTag(84, b"123")},
            "parts.p.vectors: 3 bytes are no whole number of float16 values",
        ),
        ({"vectors": CBORTag(84, b"1234")}, "parts.p.vectors: 1 dimensions where 2 are due"),
        ({"vectors": vectors(1, 2, 3, 4, tag=64)}, "parts.p.vectors: uint8 where floats are due"),
        (
            {"vectors": vectors(1, 2, 3, 4, tag=72)},
            "parts.p.vectors: int8 travels as q with its scales",
        ),
        ({"vectors": [1, 2]}, "parts.p.vectors: not an array"),
        ({"vectors": None}, "parts.p.vectors: missing"),
        (
            {"vectors": {"q": vectors(1, 2, 3, 4, tag=72)}},
            "parts.p.vectors: an array in int8 has the keys q and s",
        ),
        (
            {"vectors": {"q": vectors(1, 2, 3, 4, tag=64), "s": SCALES}},
            "parts.p.vectors: q is not int8",
        ),
        (
            {"vectors": {"q": vectors(1, 2, tag=72, dims=(1, 2)), "s": SCALES}},
            "parts.p.vectors: 2 scales",
        ),
        (
            {
                "vectors": {
                    "q": vectors(2, 2, 2, 2, tag=72),
                    "s": CBORTag(85, np.full(2, 3e38, "<f4").tobytes()),
                }
            },
            r"parts.p.vectors\[0\]: 2 of 2 values are not finite",
        ),
        ({"classes": CBORTag(85, b"\0" * 8)}, "parts.p.classes: float32 where integers are due"),
        (
            {"classes": CBORTag(79, np.array([-1, 0], "<i8").tobytes())},
            "parts.p.classes: a class id is negative",
        ),
        (
            {"classes": CBORTag(79, np.array([0, 65_536], "<i8").tobytes())},
            "parts.p.classes: class 65536, ids are below",
        ),
        ({"classes": CBORTag(64, b"\0")}, "parts.p.vectors: 2 vectors for 1 rows"),
        ({"counts": CBORTag(64, b"\0")}, "parts.p.counts: 1 counts for 2 rows"),
        ({"counts": False}, "parts.p.counts: not an array"),
        ({"colour": 1}, "parts.p.colour: prototypes have no such field"),
        ({"kind": "pickle"}, "parts.p: not a part of kind prototypes, mixtures"),
        ({"kind": ["head"]}, "parts.p: not a part of kind"),
        ({"kind": None}, "parts.p: not a part of kind"),
        (
            {"classes": CBORTag(64, b"\7" * 65), "vectors": vectors(*[1] * 65, dims=(65, 1))},
            "parts.p.classes: class 7 has more than 64 rows",
        ),
        (
            {"vectors": vectors(*[0] * 16_386, dims=(2, 8_193))},
            "parts.p.vectors: rows of 8193 values, at most 8192",
        ),
    ],
)
def test_parts_refused(changes, words):
    with pytest.raises(WireError, match=words):
        wire.decode_parts(prototypes(**changes))


@pytest.mark.parametrize(
    ("hexdump", "words"),
    [
        ("", "byte 0: the bytes end too early"),
        ("5b 00000002540be400 00", "10000000000 bytes claimed where 1 are left"),
        ("7b 00000002540be400 00", "10000000000 bytes claimed where 1 are left"),
        ("9b 00000002540be400 00", "10000000000 items claimed where 1 bytes are left"),
        ("bb 00000002540be400 00", "20000000000 items claimed where 1 bytes are left"),
        ("bb ffffffffffffffff 00", "items claimed where 1 bytes are left"),
        ("a1 61 61 d8 54 5b 00000002540be400", "10000000000 bytes claimed where 0 are left"),
        ("81" * 9 + "80", "nested deeper than 8"),
        ("81" * 100_000, "nested deeper than 8"),
        ("d828" + "82" * 40, "nested deeper than 8"),
        ("d818" * 40, "tag 24 holds the wrong kind of item"),
        ("a2 6161 01 6161 02", "duplicate key"),
        ("a2 6162 01 6161 02", "keys out of order"),
        ("a2 626161 01 6162 02", "keys out of order"),
        ("a1 01 02", "a map key is not text"),
        ("a1 80 02", "a map key is not text"),
        ("a1 d8184101 02", "a map key is not text"),
        ("a0 00", "byte 1: 1 bytes after the end"),
        ("bf ff", "indefinite length"),
        ("9f ff", "indefinite length"),
        ("5f ff", "indefinite length"),
        ("7f ff", "indefinite length"),
        ("ff", "indefinite length"),
        ("1c", "reserved header 0x1c"),
        ("18 17", "23 is not in its shortest form"),
        ("19 00ff", "255 is not in its shortest form"),
        ("3a 0000ffff", "65535 is not in its shortest form"),
        ("5b 0000000000000001 00", "1 is not in its shortest form"),
        ("d9 0028 80", "40 is not in its shortest form"),
        ("1b 8000000000000000", "does not fit 64 signed bits"),
        ("3b 8000000000000000", "does not fit 64 signed bits"),
        ("c2 49 010000000000000000", "tag 2 is not allowed"),
        ("d81c 81 d81d 00", "tag 28 is not allowed"),
        ("81 d81d 00", "tag 29 is not allowed"),
        ("d823 63 282829", "tag 35 is not allowed"),
        ("c1 1a 514b67b0", "tag 1 is not allowed"),
        ("d9 0102 80", "tag 258 is not allowed"),
        ("d840 6161", "tag 64 holds the wrong kind of item"),
        ("d828 40", "tag 40 holds the wrong kind of item"),
        ("f7", "simple value 0xf7 is not allowed"),
        ("e0", "simple value 0xe0 is not allowed"),
        ("f8 20", "simple value 0xf8 is not allowed"),
        ("a1 79 0101 " + "61" * 257 + "00", "text of 257 bytes, at most 256 are allowed"),
        ("a1 62 c328 00", "error decoding text string"),
        ("80", "not a map"),
    ],
)
def test_bytes_refused(hexdump, words):
    data = bytes.fromhex(hexdump)
    with pytest.raises(WireError, match=words):
        wire.decode_parts(data)
    with pytest.raises(WireError, match=words.replace("of parts", "")):
        wire.decode(data)


def test_too_many_items():
    with pytest.raises(WireError, match="more than 65536 items"):
        wire.decode_parts(b"\x9a\x00\x01\x00\x00" + b"\x00" * 65_536)


FIELDS = st.dictionaries(
    st.text(max_size=30),
    st.one_of(
        st.text(max_size=300),
        st.integers(-3, 2**64 - 1),
        st.binary(max_size=40),
        st.binary(max_size=300).map(lambda body: CBORTag(24, body)),
        st.just(None),
        st.just([1]),
    ),
    max_size=30,
)


@given(FIELDS, st.data())
@settings(max_examples=300, deadline=None)
def test_envelopes_are_read_in_one_go_as_they_are_by_the_walk(fields, draw):
    data = bytearray(cbor2.dumps(fields, canonical=True))
    for _ in range(draw.draw(st.integers(0, 2), "changes")):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    data = bytes(data[: draw.draw(st.integers(len(data) - 2, len(data) + 2))])
    quick = strict.flat(data, DEFAULT)
    if quick is not None:
        assert quick == strict.load(data, DEFAULT, "message")


def test_an_envelope_as_devices_send_it_is_read_in_one_go():
    envelope = wire.Envelope(t="upload", fleet="f", agent="a" * 24, epoch=300, base="00" * 32)
    assert strict.flat(wire.enclose(envelope, b"\xa0" * 70_000), DEFAULT) is not None
