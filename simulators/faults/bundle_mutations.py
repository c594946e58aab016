"""A small sound bundle, and what it may be turned into by somebody who knows what it is made of:
fields of the protobuf, headers of arrays, entries of the zip, settings of the manifest.

The hashes are right again after most changes, so that what is behind them is reached. `python -m
simulators.faults.bundle_mutations SEED FIRST LAST` tries so many of them, one after the other,
under the limits of a device's own test, and prints a line each.
"""

from __future__ import annotations

import io
import json
import random
import struct
import sys
import zipfile
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edge_agent.inference import sandbox
from export import verify
from export.contents import npz
from protofleet import wire
from protofleet.errors import FleetError
from protofleet.exchange import archive, published
from protofleet.exchange.archive import MANIFEST, MODEL, PROTOTYPES, SELFTEST, BundleError
from protofleet.exchange.published import About, Bank
from protofleet.util import landlock
from protofleet.values.prototypes import Prototypes

Files = dict[str, bytes]
SIDE, WIDTH = 4, 6
LINEAGE = "extractor:of-a-trial"
NUMBERS = (0, 1, 2, 7, 255, 2**16, 2**31 - 1, 2**31, 2**40, 2**63 - 1, 2**64 - 1)
VALUES: tuple[Any, ...] = (
    *(0, -1, 1, 2**31, 2**63, 10**40, 0.5, 1e30, -1e30, float("nan"), float("inf")),
    *(True, None, "", "x", "\x1b[2J\n", "a" * 5000, "../../etc/passwd", [], {}, [[[]]], [1] * 3000),
)
OPERATORS = ("Loop", "Scan", "If", "RandomNormal", "Expand", "Tile", "Resize", "Gather", "Slice")


def sound(lineage: str = LINEAGE) -> Files:
    """A bundle's files without its manifest: one layer of weights, a branch, and every further file
    that there may be.
    """
    rng = np.random.default_rng(7)
    bank = Bank(
        About(lineage, ("a", "b")),
        Prototypes(np.arange(2), rng.normal(size=(2, WIDTH)).astype(np.float32), np.array([9, 9])),
    )
    message = published.write(bank, wire.Envelope("global", "trial"), "float32")
    points = published.read(message).bank.points
    assert isinstance(points, Prototypes)
    inputs = {"proto_w": 2 * points.vectors.T, "proto_b": -(points.vectors**2).sum(1)}
    x = rng.integers(0, 256, (16, SIDE, SIDE, 1), dtype=np.uint8)
    model = _graph(rng)
    score, feature = verify.scores(model, x, inputs)
    return {
        MODEL: model,
        PROTOTYPES: message,
        SELFTEST: npz({"image": x, "score": score, "feature": feature}),
        "calibration.npz": npz({"features": feature.astype(np.float16)}),
        "drift.npz": npz({"": np.zeros(WIDTH, np.float32), "a": np.zeros(WIDTH, np.float32)}),
        "fixed.onnx": model,
    }


def _graph(rng: np.random.Generator) -> bytes:
    """A little of what networks are made of: convolution, pooling, eight bits, a branch, shapes."""
    value, float_ = helper.make_tensor_value_info, TensorProto.FLOAT
    branch = helper.make_node("Identity", ["small"], ["branched"])
    kept = helper.make_graph([branch], "then", [], [value("branched", float_, None)])
    whole = numpy_helper.from_array(np.array(1 / 255, np.float32))
    node = helper.make_node
    nodes = [
        node("Transpose", ["image"], ["turned"], perm=[0, 3, 1, 2]),
        node("Cast", ["turned"], ["floats"], to=float_),
        node("Constant", [], ["whole"], value=whole),
        node("Mul", ["floats", "whole"], ["scaled"]),
        node("Conv", ["scaled", "filters", "bias"], ["seen"], pads=[1, 1, 1, 1], strides=[1, 1]),
        node("Clip", ["seen", "low", "high"], ["clipped"]),
        node("QuantizeLinear", ["clipped", "step", "zero"], ["bytes"]),
        node("DequantizeLinear", ["bytes", "step", "zero"], ["again"]),
        node("MaxPool", ["again"], ["pooled"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Resize", ["pooled", "", "scales"], ["larger"], mode="linear"),
        node("Concat", ["larger", "seen"], ["joined"], axis=1),
        node("ReduceMean", ["joined", "places"], ["small"], keepdims=0),
        node("If", ["yes"], ["same"], then_branch=kept, else_branch=kept),
        node("Reshape", ["same", "shape"], ["flat"]),
        node("Gather", ["flat", "picked"], ["some"], axis=1),
        node("MatMul", ["some", "weight"], ["product"]),
        node("Relu", ["product"], ["feature"]),
        node("Gemm", ["feature", "proto_w", "proto_b"], ["score"]),
    ]
    weights: dict[str, Any] = {
        "filters": rng.normal(size=(4, 1, 3, 3)).astype(np.float32),
        "bias": np.zeros(4, np.float32),
        "low": np.array(0, np.float32),
        "high": np.array(6, np.float32),
        "step": np.array(6 / 255, np.float32),
        "zero": np.array(0, np.uint8),
        "scales": np.array([1, 1, 2, 2], np.float32),
        "places": np.array([2, 3]),
        "shape": np.array([-1, 8]),
        "picked": np.array([7, 5, 3, 1, 0]),
        "weight": rng.normal(size=(5, WIDTH)).astype(np.float32),
        "yes": np.array(True),
    }
    graph = helper.make_graph(
        nodes,
        "g",
        [
            value("image", TensorProto.UINT8, ["n", SIDE, SIDE, 1]),
            value("proto_w", float_, [WIDTH, "p"]),
            value("proto_b", float_, ["p"]),
        ],
        [value("score", float_, ["n", "p"]), value("feature", float_, ["n", WIDTH])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    written: bytes = model.SerializeToString()
    return written


def manifest(files: Mapping[str, bytes], lineage: str = LINEAGE) -> dict[str, Any]:
    """What is said of these files, as it should be."""
    return {
        "schema": archive.SCHEMA,
        "input": {"kind": "image", "shape": [SIDE, SIDE, 1], "mean": [0.0], "std": [1.0]},
        "embedding": WIDTH,
        "classes": ["a", "b"],
        "reading": {"by": "prototypes", "metric": "euclidean"},
        "lineages": [lineage],
        **dict.fromkeys(("method", "backbone", "fleet", "run"), "trial"),
        "round": 1,
        "state": wire.decode(files[PROTOTYPES]).digest,
        "precision": "fp32",
        "tolerance": 1e-3,
        "files": hashes(files),
        "unknown": {"keep": 0.99},
        "resize": "antialiased-bilinear",
    }


def hashes(files: Mapping[str, bytes]) -> dict[str, str]:
    """By which a manifest names its files."""
    return {name: sha256(data).hexdigest() for name, data in files.items()}


def packed(files: Mapping[str, bytes], document: Mapping[str, Any]) -> bytes:
    """As one file."""
    return archive.pack({MANIFEST: json.dumps(document).encode(), **files})


def name_of(data: bytes) -> str:
    """What a channel calls a bundle, also one that no device would open."""
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        return sha256(opened.read(MANIFEST)).hexdigest()


def mutated(files: Mapping[str, bytes], rng: random.Random) -> bytes:
    """A bundle with one to three changes, in one of its layers."""
    changed, document = dict(files), manifest(files)
    layer = rng.choice(("graph", "graph", "bytes", "arrays", "zip", "manifest", "manifest"))
    times = rng.randint(1, 3)
    if layer == "zip":
        return _zip(packed(changed, document), rng)
    if layer == "manifest":
        for _ in range(times):
            _value(document, rng)
        return packed(changed, document)
    name = rng.choice([n for n in changed if n.endswith(".npz")]) if layer == "arrays" else MODEL
    if layer == "bytes":
        name = rng.choice(list(changed))
    step: Callable[[bytes, random.Random], bytes] = {
        "graph": _fields,
        "arrays": _arrays,
        "bytes": _bytes,
    }[layer]
    for _ in range(times):
        changed[name] = step(changed[name], rng)
    return packed(changed, {**document, "files": hashes(changed)})


def _fields(data: bytes, rng: random.Random) -> bytes:
    """One field of one message of the graph: gone, other, twice, or one that was not there."""
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except Exception:  # protobuf's DecodeError, of what an earlier change made of it
        return _bytes(data, rng)
    message = rng.choice(_messages(model))
    field = rng.choice(message.DESCRIPTOR.fields)
    try:
        _changed(message, field, rng)
        written: bytes = model.SerializeToString()
    except (ValueError, TypeError):  # what protobuf itself will not write
        return _bytes(data, rng)
    return written


def _messages(message: Any) -> list[Any]:
    inner = [message]
    for field, value in message.ListFields():
        if field.message_type is not None:
            for one in value if field.is_repeated else [value]:
                inner += _messages(one)
    return inner


def _changed(message: Any, field: Any, rng: random.Random) -> None:
    whole = field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_INT64, field.CPPTYPE_ENUM)
    if rng.random() < 0.2:
        message.ClearField(field.name)
    elif field.message_type is not None:
        place = getattr(message, field.name)
        if field.is_repeated:
            if len(place) and rng.random() < 0.5:
                place.add().CopyFrom(rng.choice(place))
            else:
                place.add()
        else:
            place.SetInParent()
    else:
        number = rng.choice(NUMBERS) % 2**31 if rng.random() < 0.7 else -rng.choice(NUMBERS) % 2**31
        if whole and field.cpp_type == field.CPPTYPE_INT64:
            number = rng.choice((*NUMBERS[:-1], -1, -(2**63)))
        elif field.cpp_type == field.CPPTYPE_UINT64:
            number = rng.choice(NUMBERS)
        text = rng.choice((*OPERATORS, "", "x", "ai.onnx", "com.microsoft", "/etc/passwd"))
        value: Any = number
        if field.cpp_type == field.CPPTYPE_STRING:
            raw = rng.choice((text.encode(), rng.randbytes(rng.randint(0, 40))))
            value = raw if field.type == field.TYPE_BYTES else text
        if field.is_repeated:
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)


def _bytes(data: bytes, rng: random.Random) -> bytes:
    """Some bytes other, gone, more, or from elsewhere in it."""
    at = rng.randint(0, len(data))
    some = rng.randint(1, 8)
    match rng.randint(0, 4):
        case 0:
            return data[:at] + rng.randbytes(some) + data[at + some :]
        case 1:
            return data[:at] + data[at + some :]
        case 2:
            return data[:at] + rng.randbytes(some) + data[at:]
        case 3:
            return data[:at]
        case _:
            other = rng.randint(0, len(data))
            return data[:at] + data[other : other + 40] + data[at:]


def _arrays(data: bytes, rng: random.Random) -> bytes:
    """An array's header, or the name of its entry."""
    out = io.BytesIO()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as before:
            entries = [(name, before.read(name)) for name in before.namelist()]
    except (OSError, ValueError, zipfile.BadZipFile):
        return _bytes(data, rng)
    chosen = rng.randrange(len(entries)) if entries else -1
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as after:
        for i, (name, content) in enumerate(entries):
            entry = (name, content) if i != chosen else _array(name, content, rng)
            after.writestr(*entry)
    return out.getvalue()


def _array(name: str, data: bytes, rng: random.Random) -> tuple[str, bytes]:
    end = min(10 + int.from_bytes(data[8:10], "little"), len(data))
    descr = rng.choice(("<f4", "<f2", "|u1", "|O", "<U9", "|V8", "<c8", "<M8", "[('a', '<f4')]"))
    sizes = [str(rng.choice(NUMBERS)) for _ in range(rng.randint(0, 4))]
    shape = "(" + ", ".join(sizes) + ("," if len(sizes) == 1 else "") + ")"
    header = f"{{'descr': '{descr}', 'fortran_order': {rng.random() < 0.5}, 'shape': {shape}, }}"
    match rng.randint(0, 4):
        case 0:
            length = len(header).to_bytes(2, "little")
            return name, data[:8] + length + header.encode() + data[end:]
        case 1:
            return name, data[:end] + data[end : end + rng.randint(0, len(data) - end)]
        case 2:
            return rng.choice(("x.npy", ".npy", "image", "../a.npy", "é" * 99)), data
        case 3:
            return name, data[:6] + rng.randbytes(4) + data[10:]
        case _:
            special = np.array(rng.choice((np.nan, np.inf, 0.0, 1e30)), np.float32).tobytes()
            return name, data[:end] + special * ((len(data) - end) // 4)


def _zip(data: bytes, rng: random.Random) -> bytes:
    """A number in one of the zip's records, or a record more."""
    changed = bytearray(data)
    mark = rng.choice((b"PK\1\2", b"PK\3\4", b"PK\5\6"))
    places = [at for at in range(len(data) - 4) if data[at : at + 4] == mark]
    at = rng.choice(places) + 4 + 2 * rng.randint(0, 20)
    match rng.randint(0, 3):
        case 0 | 1 if at + 4 <= len(changed):
            struct.pack_into("<L", changed, at, rng.choice(NUMBERS) % 2**32)
        case 2:
            end = data.rindex(b"PK\5\6")
            table = struct.unpack_from("<2L", data, end + 12)
            count = rng.choice(NUMBERS)
            second = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, *table)
            locator = struct.pack("<4sLQL", b"PK\6\7", 0, end, 1)
            changed = bytearray(data[:end] + second + locator + data[end:])
        case _:
            return _bytes(data, rng)
    return bytes(changed)


def _value(document: dict[str, Any], rng: random.Random) -> None:
    """A setting that is another, gone, or one that nobody knows."""
    place: Any = document
    key: Any = rng.choice(list(place))
    while isinstance(place.get(key), dict) and place[key] and rng.random() < 0.7:
        place = place[key]
        key = rng.choice(list(place))
    match rng.randint(0, 5):
        case 0:
            del place[key]
        case 1:
            place[rng.choice(("x", "", "../x", "files", "a" * 300))] = rng.choice(VALUES)
        case _:
            place[key] = rng.choice(VALUES)


def outcome(data: bytes) -> str:
    """What a device's test of these bytes comes to: nothing, why it is refused, or what broke."""
    try:
        sandbox.examine(data)
    except BundleError:
        return "refused"
    except FleetError as error:
        return f"refused as {error.code}"
    except Exception as error:  # that is what is looked for
        return f"broke: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return "stands"


def main() -> None:
    """A row a mutation; what is not written any more is what this process died of."""
    seed, first, last = map(int, sys.argv[1:])
    files = sound()
    if outcome(packed(files, manifest(files))) != "stands":
        sys.exit("the sound bundle does not stand")
    # Not the processor's: that is of one bundle, and these are many.
    sandbox.confine(sandbox.room(0), seconds=None)
    # Opened while that may be; what getrusage says is that of whoever started this process, too.
    with open("/proc/self/status") as status:
        landlock.close_files()
        for number in range(first, last):
            row = outcome(mutated(files, random.Random(f"{seed}/{number}")))
            print(json.dumps([number, row]), flush=True)
        peak = next(int(line.split()[1]) >> 10 for line in status if line.startswith("VmHWM"))
    print(json.dumps(["peak", peak]), flush=True)


if __name__ == "__main__":
    main()
