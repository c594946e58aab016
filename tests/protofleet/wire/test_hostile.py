"""The decoder's one promise: whatever the bytes, a checked value or `WireError`, in memory bounded
by their length.
"""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import cbor2
import numpy as np
import pytest
from cbor2 import CBORTag
from hypothesis import example, given, settings
from hypothesis import strategies as st

from protofleet import wire
from protofleet.errors import WireError
from protofleet.values.prototypes import Parts, Tensors
from tests.protofleet import strategies

VALID = {
    path.stem: path.read_bytes()
    for path in sorted((Path(__file__).parents[2] / "data/wire").glob("*.cbor"))
}


def check(data: bytes) -> bool:
    """Decode; if that succeeds, the value must be usable: it encodes again. Anything but
    `WireError` escapes.
    """
    message = decoded(data)
    if message is None:
        return False
    if message.envelope.t in wire.PART_TYPES:
        assert all_finite(message.body)
    again = wire.decode(wire.encode(message.envelope, message.body, precision="float32"))
    assert again.envelope == message.envelope
    assert again.body == message.body
    return True


def decoded(data: bytes) -> wire.Message | None:
    try:
        return wire.decode(data)
    except WireError:
        return None


def all_finite(parts: Parts) -> bool:
    arrays = [
        a
        for p in parts.values()
        for a in (p.arrays if isinstance(p, Tensors) else vars(p)).values()
    ]
    return all(np.isfinite(array).all() for array in arrays if array is not None)


@pytest.mark.parametrize("name", VALID)
def test_every_truncation_is_refused(name):
    data = VALID[name]
    assert check(data)
    for end in range(len(data)):
        assert not check(data[:end])


@pytest.mark.parametrize("name", VALID)
def test_every_changed_byte_is_a_value_or_refused(name):
    data = VALID[name]
    rng = random.Random(f"one byte of {name}")
    for at in range(len(data)):
        flips = {data[at] ^ 1 << bit for bit in range(8)} | {0, 0xFF, *rng.sample(range(256), 4)}
        for byte in flips - {data[at]}:
            check(data[:at] + bytes([byte]) + data[at + 1 :])


@pytest.mark.parametrize("name", VALID)
def test_inserted_and_removed_bytes(name):
    data = VALID[name]
    rng = random.Random(f"cuts of {name}")
    for _ in range(300):
        a, b = sorted(rng.choices(range(len(data) + 1), k=2))
        check(data[:a] + data[b:])
        check(data[:a] + rng.randbytes(rng.randrange(1, 9)) + data[a:])
        check(data[:b] + data[a:])


@given(st.binary(max_size=200))
@example(b"")
def test_any_bytes(data):
    check(data)


raw_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 300),
        st.floats(),
        st.text(max_size=3),
        st.binary(max_size=9),
        st.sampled_from(
            [
                "q",
                "s",
                "kind",
                "prototypes",
                "tensors",
                "mixtures",
                [2, 2],
                [],
                [0, 2**62],
                [2**63 - 1] * 8,
            ]
        ),
        st.builds(CBORTag, st.sampled_from([24, 40, 64, 72, 79, 84, 85]), st.binary(max_size=16)),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.builds(CBORTag, st.just(40), st.lists(inner, min_size=1, max_size=3)),
        st.dictionaries(
            st.sampled_from(
                ["kind", "classes", "vectors", "counts", "weights", "arrays", "q", "s", "x"]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@settings(max_examples=400)
@given(st.sampled_from(sorted(wire.TYPES)), raw_values)
def test_well_formed_nonsense(kind, raw):
    body = cbor2.dumps(raw, canonical=True)
    check(cbor2.dumps({"v": 1, "t": kind, "fleet": "f", "body": CBORTag(24, body)}, canonical=True))


@settings(max_examples=400)
@given(strategies.parts(), raw_values, st.data())
def test_one_member_of_valid_parts_replaced(parts, raw, data):
    tree = cbor2.loads(wire.encode_parts(parts))
    target = tree
    while True:
        keys = sorted(target)
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        if not isinstance(target[key], dict) or data.draw(st.booleans()):
            break
        target = target[key]
    target[key] = raw
    body = CBORTag(24, cbor2.dumps(tree, canonical=True))
    check(cbor2.dumps({"v": 1, "t": "own", "fleet": "f", "body": body}, canonical=True))


def hostile_bytes() -> dict[str, bytes]:
    """What would like to become much larger in memory than it is."""

    def message(kind: str, raw: object) -> bytes:
        inner = CBORTag(24, cbor2.dumps(raw, canonical=True))
        return cbor2.dumps({"v": 1, "t": kind, "fleet": "f", "body": inner}, canonical=True)

    def tensor(array: object) -> bytes:
        return message("own", {"t": {"kind": "tensors", "arrays": {"x": array}}})

    rows = CBORTag(40, [[10, 100_000], CBORTag(72, bytes(1_000_000))])
    return {
        "10 GB array": b"\xa1\x61v\xd8\x54\x5b" + (10**10).to_bytes(8, "big"),
        "10 GB map": b"\xbb" + (10**10).to_bytes(8, "big"),
        "claims within claims": b"\x9a\x00\x00\xff\xff" * 8 + bytes(66_000),
        "small maps": message("report", {"x": [{}] * 65_000}),
        "maps of one": message("report", {"x": [{"": 0}] * 21_000}),
        "long type": cbor2.dumps({"t": b"\\" * 1_000_000, "v": 1}, canonical=True),
        "uint8 becomes int64": tensor(CBORTag(64, bytes(1_000_000))),
        "int8 becomes float32": tensor({"q": rows, "s": CBORTag(85, bytes(40))}),
        "half becomes float32": tensor(CBORTag(84, bytes(1_000_000))),
        "wide and empty": tensor(CBORTag(40, [[0, 2**40], CBORTag(85, b"")])),
        "huge and empty": tensor(CBORTag(40, [[0, 2**40, 2**40], CBORTag(85, b"")])),
    }


@pytest.mark.parametrize("name", hostile_bytes())
def test_memory_is_bounded_by_length(name):
    data = hostile_bytes()[name]
    check(data)  # whatever is imported or cached on first use
    tracemalloc.start()
    try:
        decoded(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 12 * len(data) + 12 * 2**20
