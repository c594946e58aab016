"""`protofleet inspect` shows what a receiver would see, and refuses what a receiver would
refuse.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from protofleet import wire
from protofleet.cli.inspect_cmd import describe, inspect, lines
from protofleet.errors import WireError
from protofleet.trust import keys
from protofleet.trust.sealing import Signer
from protofleet.trust.sequence import Sequence
from protofleet.values.prototypes import Prototypes

DATA = Path(__file__).parents[2] / "data" / "wire"


def run(*arguments: object):
    return CliRunner().invoke(inspect, [str(argument) for argument in arguments])


@pytest.mark.parametrize("name", sorted(wire.TYPES))
def test_every_golden_message_can_be_read(name):
    path = DATA / f"{name}.cbor"
    shown = run(path)
    assert shown.exit_code == 0
    assert name in shown.output
    dump = json.loads(run(path, "--json").output)
    assert dump["envelope"]["t"] == name
    assert dump["body_sha256"] == wire.decode(path.read_bytes()).digest


def test_parts_file(tmp_path):
    path = tmp_path / "parts.cbor"
    path.write_bytes(
        wire.encode_parts({"protos": Prototypes([0, 0, 5], [[1, 2], [3, 4], [5, -6]], [7, 8, 9])})
    )
    text = run(path).output
    assert "protos: prototypes, 2 classes, 3 rows" in text
    assert "float16" in text
    assert "-6 .. 5" in text
    dump = json.loads(run(path, "--json").output)
    assert dump["parts"]["protos"]["arrays"]["vectors"] == {
        "shape": [3, 2],
        "wire": "float16",
        "min": -6,
        "max": 5,
    }
    assert dump["digest"] == wire.digest(wire.decode_parts(path.read_bytes()))


def test_refused_bytes(tmp_path):
    path = tmp_path / "bad.cbor"
    path.write_bytes(b"\xa1\x61")
    result = run(path)
    assert result.exit_code == 1
    assert isinstance(result.exception, WireError)
    assert "\n" not in str(result.exception)


def test_a_signature_is_shown_and_not_believed(tmp_path):
    signer = Signer(keys.new(), Sequence(tmp_path / "numbers"))
    message = wire.encode(wire.Envelope(t="ack", fleet="orchard"), {"done": True})
    dump = describe(signer.seal("anywhere", message))
    assert dump["envelope"]["fleet"] == "orchard"
    assert any("not verified" in line for line in lines(dump))
