"""A small extractor for digits as a bundle, and others that pass the same self-test: one that is as
good, and three that are bad in the ways that devices find out for themselves.
"""

# Every variant has the lineage of the first: it says that it is the same extractor in another form,
# as a quantised one would be. Its self-test vectors are black pictures, on which all of them agree;
# what sets them apart needs a picture with something in it. So each passes every check that does
# not look at a device's own pictures, which is what a trial is for.
#
#   good       the same features, by one node more
#   crashing   whatever is not black makes an index that is not there: the graph cannot be run
#   slow       the same features, after some hundred million multiplications
#   worse      of a dark picture (of a camera that sees little light) most of the features are zero

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from protofleet import wire
from protofleet.contract import Input
from protofleet.exchange import archive, published
from protofleet.exchange.published import About, Bank, graph_lineage
from protofleet.settings.fields import to_plain
from protofleet.values.prototypes import Prototypes

if TYPE_CHECKING:
    from onnx import ModelProto

Variant = Literal["first", "good", "crashing", "slow", "worse"]
SIDE, WIDTH = 8, 192
KIND = Input("image", (SIDE, SIDE, 1), (0.0,), (1.0,))
DARK = 160.0  # a picture whose brightest pixel is below that
STAYS = 0.92  # share of a dark picture's features that `worse` leaves
ROWS, INNER, TIMES = 256, 512, 30  # of what `slow` multiplies


def write_variant(variant: Variant, path: Path, fleet: str) -> Path:
    """The bundle as a `.pfb`."""
    graph = _graph(variant).SerializeToString()
    lineage = graph_lineage(_graph("first").SerializeToString(), WIDTH, KIND, "")
    nothing = Prototypes(np.zeros(0, np.int64), np.zeros((0, WIDTH), np.float32))
    state = published.write(Bank(About(lineage, ()), nothing), wire.Envelope("global", fleet))
    vectors = io.BytesIO()
    black = np.zeros((4, *KIND.shape), np.uint8)
    np.savez(vectors, image=black, feature=_of_black())
    files = {"model.onnx": graph, "prototypes.cbor": state, "selftest.npz": vectors.getvalue()}
    manifest = {
        "schema": archive.SCHEMA,
        "input": to_plain(KIND),
        "embedding": WIDTH,
        "classes": [],
        "reading": {"by": "prototypes"},
        "lineages": [lineage],
        "method": "extractor",
        "backbone": variant,
        "fleet": fleet,
        "run": "extractor",
        "round": 0,
        "state": wire.decode(state).digest,
        "precision": "fp32",
        "tolerance": 1e-3,
        "files": {name: sha256(data).hexdigest() for name, data in files.items()},
    }
    path.write_bytes(archive.pack({archive.MANIFEST: json.dumps(manifest).encode(), **files}))
    return path


def _weights() -> dict[str, Any]:
    rng = np.random.default_rng(5)
    return {
        "w": (rng.normal(size=(SIDE * SIDE, WIDTH)) / SIDE).astype(np.float32),
        "b": rng.normal(size=WIDTH).astype(np.float32) / 4 + 0.1,
        "scale": np.array(1 / 64, np.float32),
        "flat": np.array([-1, SIDE * SIDE], np.int64),
    }


def _of_black() -> Any:
    feature = np.maximum(_weights()["b"], 0)
    return np.tile(feature, (4, 1)).astype(np.float32)


def _graph(variant: Variant) -> ModelProto:
    from onnx import TensorProto, helper, numpy_helper

    weights, node = _weights(), helper.make_node
    nodes = [
        node("Cast", ["image"], ["pixels"], to=TensorProto.FLOAT),
        node("Reshape", ["pixels", "flat"], ["row"]),
        node("Mul", ["row", "scale"], ["scaled"]),
        node("MatMul", ["scaled", "w"], ["product"]),
        node("Add", ["product", "b"], ["sum"]),
    ]
    last = "feature" if variant == "first" else "plain"
    nodes.append(node("Relu", ["sum"], [last]))
    more, constants = _difference(variant)
    nodes += more
    nodes.append(node("MatMul", ["feature", "proto_w"], ["products"]))
    nodes.append(node("Add", ["products", "proto_b"], ["score"]))
    graph = helper.make_graph(
        nodes,
        "digits",
        [
            helper.make_tensor_value_info("image", TensorProto.UINT8, ["n", *KIND.shape]),
            helper.make_tensor_value_info("proto_w", TensorProto.FLOAT, [WIDTH, "p"]),
            helper.make_tensor_value_info("proto_b", TensorProto.FLOAT, ["p"]),
        ],
        [
            helper.make_tensor_value_info("score", TensorProto.FLOAT, ["n", "p"]),
            helper.make_tensor_value_info("feature", TensorProto.FLOAT, ["n", WIDTH]),
        ],
        [numpy_helper.from_array(array, name) for name, array in {**weights, **constants}.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _difference(variant: Variant) -> tuple[Sequence[Any], dict[str, Any]]:
    """What stands between the features of all and those of this one."""
    from onnx import TensorProto, helper

    node = helper.make_node
    if variant == "first":
        return [], {}
    if variant == "good":
        return [node("Identity", ["plain"], ["feature"])], {}
    brightest = node("ReduceMax", ["row"], ["brightest"], axes=[1], keepdims=1)
    zero = np.array(0.0, np.float32)
    if variant == "crashing":
        nodes = [
            brightest,
            node("Greater", ["brightest", "zero"], ["bright"]),
            node("Cast", ["bright"], ["number"], to=TensorProto.INT64),
            node("Mul", ["number", "beyond"], ["index"]),
            node("Gather", ["ones", "index"], ["factor"]),
            node("Mul", ["plain", "factor"], ["feature"]),
        ]
        beyond, ones = np.array(1_000_000, np.int64), np.ones(1, np.float32)
        return nodes, {"zero": zero, "beyond": beyond, "ones": ones}
    if variant == "worse":
        rng = np.random.default_rng(6)
        loses = (rng.random((1, WIDTH)) > STAYS).astype(np.float32)
        nodes = [
            brightest,
            node("Less", ["brightest", "dark"], ["is_dark"]),
            node("Greater", ["brightest", "zero"], ["is_something"]),
            node("And", ["is_dark", "is_something"], ["loses_it"]),
            node("Cast", ["loses_it"], ["flag"], to=TensorProto.FLOAT),
            node("Mul", ["flag", "loses"], ["lost"]),
            node("Sub", ["one", "lost"], ["factor"]),
            node("Mul", ["plain", "factor"], ["feature"]),
        ]
        constants = {"zero": zero, "dark": np.array(DARK, np.float32), "loses": loses}
        return nodes, {**constants, "one": np.array(1.0, np.float32)}
    square = np.full((INNER, INNER), 1e-3, np.float32)
    nodes = [
        node("ReduceMean", ["row"], ["mean"], axes=[1], keepdims=1),
        node("ReduceMean", ["mean"], ["only"], axes=[0], keepdims=1),
        node("Expand", ["only", "shape"], ["wide_0"]),
        *(node("MatMul", [f"wide_{i}", "square"], [f"wide_{i + 1}"]) for i in range(TIMES)),
        node("ReduceMean", [f"wide_{TIMES}"], ["small"], axes=[0, 1], keepdims=1),
        node("Mul", ["small", "zero"], ["nothing"]),
        node("Add", ["plain", "nothing"], ["feature"]),
    ]
    shape = np.array([ROWS, INNER], np.int64)
    return nodes, {"square": square, "shape": shape, "zero": zero}
