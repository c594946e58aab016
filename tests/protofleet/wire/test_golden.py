"""One message of every type, frozen: these bytes are version 1 of the wire and never change.

A new type gets a new file by calling `freeze()` by hand, which leaves existing files alone.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from protofleet import wire
from protofleet.masking.group import Agreement, PublicKeys
from protofleet.masking.letters import encode_letter
from protofleet.values.prototypes import Head, Mixtures, Prototypes, SoftLabels, Tensors

DATA = Path(__file__).parents[2] / "data" / "wire"
RUN, BOOT, BASE = "0f1e2d3c4b5a6978", "00112233aabbccdd", "ab" * 32
AGENT = {"run": RUN, "epoch": 1, "agent": "camera-07", "boot": BOOT}
ROUND = {"run": RUN, "epoch": 1, "round": 17, "method": "fedproto"}


def eighths(*shape: int) -> np.ndarray:
    """Numbers that half precision holds exactly."""
    return (np.arange(np.prod(shape)).reshape(shape) - 5) / 8


PROTOS = Prototypes([0, 0, 3, 700], eighths(4, 6), [12, 300, 0, 2**40])
MIXTURES = Mixtures([1, 1, 4], [0.25, 0.75, 1], eighths(3, 2), eighths(3, 2) + 1, [9, 1000])
TENSORS = Tensors(
    {
        "conv.weight": eighths(2, 3, 2),
        "steps": np.array(-7),
        "none": np.zeros((0, 4)),
        "ids": [1, 2],
    }
)
HEAD = Head([0, 1], eighths(2, 3), [1 / 3, -2])
TERMS = Agreement(bytes(range(16)), ("camera-07", "camera-08", "camera-09"), 0, BASE, "round 17")
KEYS = PublicKeys("camera-07", bytes(32), bytes(range(32)), b"\xff" * 32, b"a voucher")
SOFT = SoftLabels([0, 2], [[0.5, 0.25, 0.25], [0, 0, 1]])

# type -> the rest of the envelope, body, and how it is encoded
SAMPLES = {
    "birth": (
        {**AGENT, "seq": 0},
        {"wire": [1], "backbone": "resnet18", "train": True, "dim": 512},
        {},
    ),
    "state": (
        {"epoch": 1, "run": RUN},
        {"online": True, "round": 17, "method": "fedproto", "since": None},
        {},
    ),
    "round": (
        {**ROUND, "base": BASE},
        {
            "agents": ["camera-07", "camera-08"],
            "deadline_s": 90.5,
            "quorum": 2,
            "hyper": {"lr": 0.01, "lambda": 1.0},
        },
        {},
    ),
    "global": (
        ROUND,
        {"protos": PROTOS, "head": HEAD, "soft": SOFT},
        {"exceptions": {"head": "half"}},
    ),
    "own": ({**ROUND, "agent": "camera-07"}, {"anchors": MIXTURES}, {}),
    "upload": (
        {**AGENT, **ROUND, "seq": 41, "base": BASE},
        {"protos": PROTOS, "stats": TENSORS},
        {},
    ),
    "receipt": (
        {**ROUND, "agent": "camera-07"},
        {"digest": BASE, "verdict": "accepted", "words": "fused"},
        {},
    ),
    "report": (
        {**AGENT, "seq": 42, "round": 17},
        {"accuracy": 0.8125, "loss": 1e-9, "n": -1, "big": 2**62},
        {},
    ),
    "enrol": (
        {"agent": "camera-07", "boot": BOOT, "seq": 3},
        {"protos": PROTOS},
        {"precision": "int8"},
    ),
    "desired": (
        {"agent": "camera-07"},
        {"bundle": "extractor-3", "generation": 4, "digest": BASE},
        {},
    ),
    "reported": (
        {"agent": "camera-07", "boot": BOOT},
        {"digest": BASE, "phase": "proven", "reason": "žádný"},
        {},
    ),
    "command": (
        {"agent": "camera-07", "seq": 5},
        {"id": "c-1", "do": "restart", "ttl_s": 30, "args": {}},
        {},
    ),
    "ack": ({"agent": "camera-07", "seq": 43}, {"id": "c-1", "done": False, "words": "busy"}, {}),
    "slip": (
        {**ROUND, "base": BASE},
        {"digest": BASE, "size": 20_000_000, "chunk": 130_048, "of": "global"},
        {},
    ),
    "group": ({**ROUND, "boot": BOOT}, encode_letter(TERMS), {}),
    "letter": ({**AGENT, **ROUND, "seq": 44, "base": BASE}, encode_letter(KEYS), {}),
}


def encoded(name: str) -> bytes:
    head, body, how = SAMPLES[name]
    return wire.encode(wire.Envelope(t=name, fleet="orchard", **head), body, **how)


def freeze() -> None:
    """Write the files that are missing; never called by a test."""
    for name in SAMPLES:
        path = DATA / f"{name}.cbor"
        if not path.exists():
            path.write_bytes(encoded(name))


def test_every_type_is_frozen():
    assert SAMPLES.keys() == wire.TYPES
    assert {path.stem for path in DATA.glob("*.cbor")} == wire.TYPES


@pytest.mark.parametrize("name", SAMPLES)
def test_encodes_to_the_frozen_bytes(name):
    assert encoded(name) == (DATA / f"{name}.cbor").read_bytes()


@pytest.mark.parametrize("name", SAMPLES)
def test_decodes_from_the_frozen_bytes(name):
    head, body, how = SAMPLES[name]
    got = wire.decode((DATA / f"{name}.cbor").read_bytes())
    assert got.envelope == wire.Envelope(t=name, fleet="orchard", **head)
    if name in wire.PART_TYPES:
        assert wire.encode_parts(got.body, **how) == wire.encode_parts(body, **how)
        assert name in ("global", "enrol") or got.body == body
    else:
        assert got.body == body
