"""`protofleet inspect FILE`: what is in a message or parts file, for people or as JSON.

The file goes through the same decoder as everything from outside, so what is printed here is what a
receiver would see.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import numpy as np
from cbor2 import CBORTag

from protofleet import wire
from protofleet.masking.letters import decode_letter
from protofleet.trust import sealing
from protofleet.values.prototypes import Part, Parts, Tensors
from protofleet.wire import strict
from protofleet.wire.arrays import wire_dtype
from protofleet.wire.strict import shown


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def inspect(file: Path, as_json: bool) -> None:
    """Print what is in FILE: a message, or the parts of one."""
    with file.open("rb") as opened:
        data = opened.read(wire.DEFAULT.message + 1)  # the decoder refuses what is longer
    dump = describe(data)
    click.echo(json.dumps(dump, indent=2) if as_json else "\n".join(lines(dump)))


def describe(data: bytes) -> dict[str, Any]:
    """The bytes as a plain document; raises `WireError` for bytes that the decoder refuses."""
    if sealing.is_sealed(data):
        sealed = sealing.taken_apart(data)
        by = {"key": sealed.key.hex(), "number": sealed.number, "lane": sealed.lane}
        return {**describe(sealed.message), "bytes": len(data), "signature": by}
    raw = strict.load(data, wire.DEFAULT, "file")
    body = raw.get("body") if isinstance(raw, dict) else None
    if not isinstance(body, CBORTag):
        parts = wire.decode_parts(data)
        return {"bytes": len(data), "digest": wire.digest(parts), "parts": _parts(parts, raw)}
    message = wire.decode(data)
    envelope = {name: value for name, value in vars(message.envelope).items() if value is not None}
    dump: dict[str, Any] = {"bytes": len(data), "envelope": envelope, "body_sha256": message.digest}
    if message.envelope.t in wire.DOCUMENT_TYPES:
        return {**dump, "body": message.body}
    if message.envelope.t in wire.LETTER_TYPES:  # of a masked sum: what it holds is for devices
        letter = decode_letter(message.body)
        return {
            **dump,
            "body": {"letter": type(letter).__name__.lower(), "bytes": len(message.body)},
        }
    inner = strict.load(body.value, wire.DEFAULT, "body")
    return {**dump, "digest": wire.digest(message.body), "parts": _parts(message.body, inner)}


def lines(dump: dict[str, Any]) -> list[str]:
    """The document as aligned lines."""
    out = [f"{'bytes':<12} {dump['bytes']}"]
    if "signature" in dump:  # by whom it says it is: a file has no topic to hold it to
        by = dump["signature"]
        out.append(f"{'signed':<12} by key {by['key']}, number {by['number']}, not verified")
    out += [f"{name:<12} {shown(str(value))}" for name, value in dump.get("envelope", {}).items()]
    out += [f"{name:<12} {dump[name]}" for name in ("body_sha256", "digest") if name in dump]
    for name, part in dump.get("parts", {}).items():
        counted = "".join(f", {part[key]} {key}" for key in ("classes", "rows") if key in part)
        out.append(f"{shown(name)}: {part['kind']}{counted}")
        for field, array in part["arrays"].items():
            shape = " x ".join(map(str, array["shape"])) or "scalar"
            span = f"{array['min']:.6g} .. {array['max']:.6g}" if "min" in array else "empty"
            out.append(f"  {shown(field):<16} {shape:<14} {array['wire']:<10} {span}")
    if "body" in dump:
        out.append(json.dumps(dump["body"], indent=2))
    return out


def _parts(parts: Parts, raw: dict[str, Any]) -> dict[str, Any]:
    return {name: _part(part, raw[name]) for name, part in parts.items()}


def _part(part: Part, raw: dict[str, Any]) -> dict[str, Any]:
    dump: dict[str, Any] = {"kind": raw["kind"]}
    arrays, on_wire = vars(part), raw
    if isinstance(part, Tensors):
        arrays, on_wire = dict(part.arrays), raw["arrays"]
    else:
        dump |= {"classes": len(np.unique(part.classes)), "rows": len(part.classes)}
    dump["arrays"] = {
        name: _array(array, on_wire[name]) for name, array in arrays.items() if array is not None
    }
    return dump


def _array(array: np.ndarray[Any, Any], raw: Any) -> dict[str, Any]:
    span = {"min": array.min().item(), "max": array.max().item()} if array.size else {}
    return {"shape": list(array.shape), "wire": wire_dtype(raw), **span}
