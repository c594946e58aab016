"""Envelopes and bodies: what goes in comes out, what does not belong is refused in clear words."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from hashlib import sha256

import cbor2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protofleet import wire
from protofleet.errors import WireError
from protofleet.values.prototypes import Prototypes
from tests.protofleet import strategies

FULL = wire.Envelope(
    t="upload",
    fleet="orchard",
    run="0f1e2d3c4b5a6978",
    epoch=1,
    agent="camera-07",
    boot="00112233aabbccdd",
    seq=1234,
    round=17,
    method="fedproto",
    base="ab" * 32,
)
some_text = st.none() | strategies.names
some_number = st.none() | st.integers(0, 2**63 - 1)
envelopes = st.builds(
    wire.Envelope,
    t=st.sampled_from(sorted(wire.TYPES)),
    fleet=strategies.names,
    run=some_text,
    epoch=some_number,
    agent=some_text,
    boot=some_text,
    seq=some_number,
    round=some_number,
    method=some_text,
    base=st.none() | st.binary(min_size=32, max_size=32).map(bytes.hex),
)


def altered(**changes) -> bytes:
    """A valid receipt, changed below the encoder; None takes a key away."""
    body = cbor2.CBORTag(24, cbor2.dumps({"verdict": "late"}))
    raw = {"v": 1, "t": "receipt", "fleet": "orchard", "body": body, **changes}
    return cbor2.dumps(
        {key: value for key, value in raw.items() if value is not None}, canonical=True
    )


@given(envelopes, st.data())
def test_round_trip(envelope, data):
    kinds = {**dict.fromkeys(wire.PART_TYPES, strategies.parts())}
    kinds |= dict.fromkeys(wire.LETTER_TYPES, st.binary())
    body = data.draw(kinds.get(envelope.t, strategies.documents()))
    encoded = wire.encode(envelope, body, precision="float32")
    message = wire.decode(encoded)
    assert message.envelope == envelope
    assert message.body == body
    assert message.digest == sha256(cbor2.loads(encoded)["body"].value).hexdigest()
    assert wire.encode(message.envelope, message.body, precision="float32") == encoded
    opened, closed = wire.unseal(encoded)
    assert (opened, wire.decode_body(opened, closed)) == (envelope, body)


def test_a_prototype_upload_is_small():
    rng = np.random.default_rng(0)
    protos = Prototypes(range(10), rng.normal(size=(10, 512)), rng.integers(300, 900, 10))
    assert len(wire.encode(FULL, {"protos": protos})) <= 10 * 512 * 2 + 400


def test_absent_fields_are_absent():
    raw = cbor2.loads(wire.encode(wire.Envelope("ack", "orchard"), {}))
    assert raw == {"v": 1, "t": "ack", "fleet": "orchard", "body": cbor2.CBORTag(24, b"\xa0")}
    assert cbor2.loads(wire.encode(FULL, {}))["base"] == bytes.fromhex("ab" * 32)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"v": 2}, "message.v: version 2 is not spoken here, only 1"),
        ({"v": None}, "message.v: version of type NoneType is not spoken here"),
        ({"v": True}, "message.v: version True"),
        ({"t": "gossip"}, "message.t: gossip is no message type"),
        ({"t": ["ack"]}, "message.t: of type list is no message type"),
        ({"t": None}, "message.t: of type NoneType is no message type"),
        ({"fleet": None}, "receipt.fleet: missing"),
        ({"fleet": ""}, "receipt.fleet: not a text, or an empty one"),
        ({"fleet": 7}, "receipt.fleet: not a text"),
        ({"round": -1}, "receipt.round: not a whole number from 0 up"),
        ({"round": False}, "receipt.round: not a whole number"),
        ({"epoch": 1.0}, "receipt.epoch: not a whole number"),
        ({"base": b"\0" * 31}, "receipt.base: not the 32 bytes of a sha256"),
        ({"base": "ab" * 32}, "receipt.base: not the 32 bytes"),
        ({"colour": 1}, "receipt.colour: envelopes have no such key"),
        ({"a\nb": 1}, r"receipt.'a\\nb': envelopes have no such key"),
        ({"body": None}, "receipt.body: not embedded CBOR"),
        ({"body": {"verdict": "late"}}, "receipt.body: not embedded CBOR"),
        ({"body": cbor2.CBORTag(24, b"")}, "receipt.body: byte 0: the bytes end too early"),
        ({"body": cbor2.CBORTag(24, b"\x80")}, "receipt.body: not a map"),
        (
            {"body": cbor2.CBORTag(24, cbor2.dumps({"x": b"y"}))},
            "receipt.body.x: bytes is no plain value",
        ),
        (
            {"body": cbor2.CBORTag(24, cbor2.dumps({"x": float("nan")}))},
            "receipt.body.x: nan is not finite",
        ),
        (
            {"body": cbor2.CBORTag(24, cbor2.dumps({"x": cbor2.CBORTag(64, b"")}))},
            "body.x: CBORTag is no plain value",
        ),
        ({"t": "upload", "body": cbor2.CBORTag(24, b"\x80")}, "upload.parts: not a map of parts"),
    ],
)
def test_what_does_not_belong_is_refused(changes, words):
    with pytest.raises(WireError, match=words) as refused:
        wire.decode(altered(**changes))
    assert "\n" not in refused.value.words


@pytest.mark.parametrize(
    ("envelope", "body", "words"),
    [
        (replace(FULL, t="gossip"), {}, "message.t: gossip is no message type"),
        (replace(FULL, agent="x" * 257), {}, "text of 257 bytes, at most 256"),
        (replace(FULL, agent=""), {}, "upload.agent: not a text, or an empty one"),
        (replace(FULL, seq=2**63), {}, "does not fit 64 signed bits"),
        (replace(FULL, round=-1), {}, "upload.round"),
        (replace(FULL, base="xyz"), {}, "message.base: xyz is not hexadecimal"),
        (replace(FULL, base="ab"), {}, "upload.base: not the 32 bytes"),
        (FULL, [], "upload.parts: list is no map of parts"),
        (replace(FULL, t="report"), [], "report.body: not a map"),
        (
            replace(FULL, t="report"),
            {"loss": [1, {"a": float("inf")}]},
            r"report.body.loss\[1\].a: inf is not finite",
        ),
        (replace(FULL, t="report"), {"n": 2**63}, "report.body.n: a whole number does not fit"),
        (replace(FULL, t="report"), {"n": {1: 2}}, "report.body.n: a key is int, not text"),
        (replace(FULL, t="report"), {"n": {1, 2}}, "report.body.n: set is no plain value"),
        (
            replace(FULL, t="report"),
            {"n": np.float32(1)},
            "report.body.n: float32 is no plain value",
        ),
        (replace(FULL, t="report"), {"n": "y" * 257}, "text of 257 bytes"),
        (replace(FULL, t="report"), {"n": "\ud800"}, "report.body: "),
        (
            replace(FULL, t="report"),
            {"n": ["y" * 250] * 1100},
            "report: .* at most 262144 are allowed for control",
        ),
        (replace(FULL, t="report"), {"n": [0] * 65_536}, "report.body: more than 65536 items"),
    ],
)
def test_the_encoder_refuses_what_the_decoder_would(envelope, body, words):
    with pytest.raises(WireError, match=words):
        wire.encode(envelope, body)


def test_a_cycle_is_nested_too_deep():
    body = {}
    body["me"] = body
    with pytest.raises(WireError, match="nested too deep"):
        wire.encode(wire.Envelope("ack", "orchard"), body)


def test_near_plain_values_become_plain():
    class Phase(StrEnum):
        PROVEN = "proven"

    body = {"phase": Phase.PROVEN, "loss": np.float64(-0.0), "pair": (1, 2)}
    got = wire.decode(wire.encode(wire.Envelope("reported", "orchard"), body)).body
    assert got == {"phase": "proven", "loss": 0.0, "pair": [1, 2]}
    assert str(got["loss"]) == "0.0"


def test_control_messages_have_their_own_size():
    body = {"n": ["y" * 250] * 1000}
    data = wire.encode(wire.Envelope("report", "orchard"), body)
    with pytest.raises(WireError, match="allowed for control messages"):
        wire.decode(data, wire.Limits(control=len(data) - 1))
    assert wire.decode(data, wire.Limits(control=len(data))).body == body
    with pytest.raises(WireError, match=f"message: {len(data)} bytes, at most 1000 are allowed"):
        wire.decode(data, wire.Limits(message=1000))
