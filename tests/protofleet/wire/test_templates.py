"""A body of a layout that was seen before is decoded as any other, and refused as any other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protofleet import wire
from protofleet.errors import WireError
from protofleet.values.prototypes import Prototypes, Tensors
from protofleet.wire.templates import BLANK, HASH
from tests.protofleet import strategies


def outcome(data: bytes, templates: wire.Templates | None):
    try:
        return wire.decode_parts(data, templates=templates)
    except WireError as error:
        return error.words


def upload(seed: int = 0, **changes) -> dict:
    rng = np.random.default_rng(seed)
    fields = {
        "classes": [0, 3, 4],
        "vectors": rng.normal(size=(3, 5)),
        "counts": rng.integers(0, 99, 3),
        **changes,
    }
    return {
        "p": Prototypes(**fields),
        "s": Tensors({"a": rng.normal(size=2), "n": rng.integers(-9, 9, (2, 2))}),
    }


def test_a_known_layout_is_decoded_like_any_other():
    templates = wire.Templates()
    for seed in range(20):
        data = wire.encode_parts(upload(seed))
        assert outcome(data, templates) == outcome(data, None)
    assert templates.find(wire.encode_parts(upload(99)), wire.DEFAULT) is not None


@given(
    st.lists(strategies.parts(), min_size=1, max_size=4),
    st.sampled_from(["half", "float32", "int8"]),
)
def test_bodies_of_any_layout_are_decoded_the_same_with_and_without_a_memory(bodies, precision):
    templates = wire.Templates()
    for body in [*bodies, *bodies]:
        data = wire.encode_parts(body, precision)
        assert outcome(data, templates) == outcome(data, None)


def test_a_broken_body_of_a_known_layout_is_refused_in_the_same_words():
    data = wire.encode_parts(upload(), "half")
    for at in range(len(data)):
        for byte in {*(data[at] ^ 1 << bit for bit in range(8)), 0, 0xFF, 0x7C}:
            templates = wire.Templates()
            assert outcome(data, templates) == outcome(data, None)
            broken = data[:at] + bytes([byte]) + data[at + 1 :]
            assert outcome(broken, templates) == outcome(broken, None)


def test_values_of_a_known_layout_are_checked_every_time():
    templates = wire.Templates()
    good, bad = (
        wire.encode_parts(upload(classes=[0, 300, last]), limits=wire.Limits(classes=2**20))
        for last in (60_000, 70_000)
    )
    wire.decode_parts(good, templates=templates)
    assert templates.find(bad, wire.DEFAULT) is not None
    with pytest.raises(WireError, match="class 70000, ids are below"):
        wire.decode_parts(bad, templates=templates)


def test_a_template_holds_under_its_own_limits_only():
    templates, data = wire.Templates(), wire.encode_parts(upload())
    wire.decode_parts(data, templates=templates)
    with pytest.raises(WireError, match="more than 5 items"):
        wire.decode_parts(data, replace(wire.DEFAULT, items=5), templates=templates)


def test_the_memory_of_layouts_is_bounded():
    templates = wire.Templates()
    for width in range(600):
        wire.decode_parts(
            wire.encode_parts({"t": Tensors({"a": np.zeros(width)})}), templates=templates
        )
    assert len(templates) <= 256


def test_a_receipt_is_cut_at_its_blanks_also_where_blanks_stand_elsewhere():
    """A name of one blank looks like any zero."""
    envelope = wire.Envelope("receipt", "f", "r", 256, agent=BLANK, round=0, method="m")
    body = {"digest": BLANK * HASH, "round": 0, "status": "late"}
    template = wire.ReceiptTemplate.of(wire.encode(envelope, body), 1)
    filled = wire.decode(template.filled("c" * HASH, b"a"))
    assert (filled.envelope, filled.body) == (
        replace(envelope, agent="a"),
        {**body, "digest": "c" * HASH},
    )


def opened(data: bytes, templates: wire.Templates | None):
    try:
        return wire.decode(data, templates=templates)
    except WireError as error:
        return error.words


heads = st.builds(
    wire.Envelope,
    t=st.just("upload"),
    fleet=st.sampled_from(["f", "g"]),
    run=st.none() | st.sampled_from(["r", "s" * 30]),
    epoch=st.none() | st.sampled_from([1, 300]),
    agent=st.none() | st.text("aä\x00", min_size=1, max_size=40),
    boot=st.none() | st.text("b", min_size=1, max_size=40),
    seq=st.none() | st.integers(0, 2**63 - 1),
    round=st.none() | st.sampled_from([0, 70_000]),
    base=st.none() | st.just("ab" * 32),
)


@given(st.lists(heads, min_size=2, max_size=6), st.data())
def test_envelopes_are_read_the_same_with_and_without_a_memory(envelopes, data):
    templates = wire.Templates()
    for envelope in [*envelopes, *envelopes[::-1]]:
        message = wire.encode(envelope, upload())
        assert opened(message, templates) == opened(message, None)
        assert templates.open(message, wire.DEFAULT) is not None
        at = data.draw(st.integers(0, min(len(message) - 1, 250)))
        broken = bytearray(message)
        broken[at] ^= data.draw(st.integers(1, 255))
        # Also a changed byte is read as it is without a memory, or refused in the same words.
        assert opened(bytes(broken), templates) == opened(bytes(broken), None)
        short = message[: data.draw(st.integers(0, len(message)))]
        assert opened(short, templates) == opened(short, None)
        assert opened(message + b"\x00", templates) == opened(message + b"\x00", None)
