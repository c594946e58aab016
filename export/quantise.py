"""The same graph in fewer bits: fp16 weights, or int8 by static QDQ, calibrated on local
samples.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from edge_agent.inference.bundle import Precision, Reading
from edge_agent.inference.inputs import Ready, ready
from edge_agent.inference.session import runtime
from export import verify
from export.forms import cleaned, in_order, reads
from export.trial import Trial
from protofleet.exchange.published import Bank
from protofleet.values.prototypes import Floats

# What holds the weights and costs the time, and what stands between two of them: a float operation
# in between would cost a conversion on each side.
QUANTISED = ("Conv", "Gemm", "MatMul")
# Scaling and reordering before the first weights. In uint8 they would round what the network was
# trained to see exactly.
PREPROCESSING = frozenset(
    {
        "Transpose",
        "Cast",
        "Mul",
        "Add",
        "Sub",
        "Div",
        "Concat",
        "Tile",
        "Expand",
        "Reshape",
    }
)
ACROSS = ("Relu", "MaxPool", "Add", "GlobalAveragePool", "ReduceMean", "Clip", "Concat", "Reshape")


@dataclass(frozen=True, eq=False)
class Lower:
    """A graph in fewer bits, where its features lie beside the float ones (by class, "" for all),
    and its points.
    """

    model: bytes
    drift: Mapping[str, Floats]
    ready: Ready


def lowered(
    precision: Precision,
    model: bytes,
    calibration: Trial,
    points: Ready,
    bank: Bank,
    reading: Reading,
) -> Lower:
    """The graph, with prototypes recomputed through it: each moves as the mean feature of its class
    does.
    """
    if precision == "fp16":
        return Lower(halved(model), {}, points)
    quantised = to_int8(model, calibration, points.inputs)
    # A quantised extractor moves every feature a little and each class in a direction of its own.
    # Prototypes that were made through the float one are moved along; the fleet's stay as they are.
    # A head's weights are no points among the features and have nowhere to move.
    drift = {}
    if reading.by != "head":
        _, before = verify.scores(model, calibration.x, points.inputs)
        _, after = verify.scores(quantised, calibration.x, points.inputs)
        moved = after - before
        drift = {"": moved.mean(0)}
        drift |= {
            bank.about.classes[c]: moved[calibration.y == c].mean(0)
            for c in np.unique(calibration.y)
            if c >= 0
        }
    return Lower(quantised, drift, ready(bank, reading, drift))


def halved(model: bytes) -> bytes:
    """Weights and arithmetic in half precision, inputs and outputs as they were; the head stays in
    float32.
    """
    runtime()
    from onnxruntime.transformers.float16 import convert_float_to_float16

    graph = onnx.load_from_string(model)
    half = convert_float_to_float16(
        graph, keep_io_types=True, node_block_list=_head(graph), disable_shape_infer=False
    )
    # It puts its conversions at the end, wherever they belong.
    written: bytes = in_order(_direct(half)).SerializeToString()
    return written


def _direct(model: onnx.ModelProto) -> onnx.ModelProto:
    """Without the detours over half precision between two nodes that stay in full, which the
    converter makes one by one: they would round the points and the scores after all.
    """
    graph = model.graph
    # A node that reads a value twice gets the same conversion twice.
    makers = {name: node for node in graph.node for name in node.output}
    outer = {node.name for node in graph.output}
    instead: dict[str, str] = {}
    for name, node in makers.items():
        before = makers.get(node.input[0]) if _casts(node, TensorProto.FLOAT) else None
        if before is not None and _casts(before, TensorProto.FLOAT16):
            instead[name] = before.input[0]
    for name in outer & instead.keys():
        # An output keeps its name: the value that it was made of takes it.
        direct = instead.pop(name)
        instead = {a: name if b == direct else b for a, b in instead.items()} | {direct: name}
        del makers[name]
    nodes = {id(node): node for node in makers.values()}
    for node in nodes.values():
        node.input[:] = [instead.get(value, value) for value in node.input]
        node.output[:] = [
            instead[value] if instead.get(value) in outer else value for value in node.output
        ]
    kept = _needed(list(nodes.values()), outer)
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in kept]
    del graph.node[:]
    graph.node.extend(copies)
    return model


def _casts(node: onnx.NodeProto, to: int) -> bool:
    return node.op_type == "Cast" and node.attribute[0].i == to


def _needed(nodes: Sequence[onnx.NodeProto], outputs: Collection[str]) -> list[onnx.NodeProto]:
    """Those that anything depends on."""
    used = {value for node in nodes for value in reads(node)} | set(outputs)
    kept = [node for node in nodes if used & set(node.output)]
    return kept if len(kept) == len(nodes) else _needed(kept, outputs)


def to_int8(model: bytes, calibration: Trial, inputs: Mapping[str, Floats]) -> bytes:
    """Static QDQ, int8 weights a channel, uint8 activations."""
    runtime()
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static

    with tempfile.TemporaryDirectory() as folder, _quiet():
        # The exporter has already folded batch norms into convolutions; shapes are all the
        # quantiser still needs.
        graph = onnx.shape_inference.infer_shapes(onnx.load_from_string(model))
        out = Path(folder) / "int8.onnx"
        quantize_static(
            graph,
            str(out),
            _Reader(calibration.x, inputs),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=[*QUANTISED, *ACROSS],
            per_channel=True,
            weight_type=QuantType.QInt8,
            activation_type=QuantType.QUInt8,
            nodes_to_exclude=_head(graph) + _before(graph),
            calibrate_method=CalibrationMethod.MinMax,
        )
        return cleaned(onnx.load(out)).SerializeToString()  # type: ignore[no-any-return]


@contextmanager
def _quiet() -> Iterator[None]:
    """The quantiser advises a preparation, in warnings to everybody, that the exporter has already
    done.
    """
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


class _Reader:
    """Calibration samples as the quantiser asks for them."""

    def __init__(self, x: Any, inputs: Mapping[str, Floats]) -> None:
        self._blocks = iter([{"image": x[i : i + 16], **inputs} for i in range(0, len(x), 16)])

    def get_next(self) -> dict[str, Any] | None:
        """The next block."""
        return next(self._blocks, None)


def _head(graph: onnx.ModelProto) -> list[str]:
    """Nodes after the feature: what compares with points."""
    return _reached(graph, {"feature", "proto_w", "proto_b", "proto_c"})


def _before(graph: onnx.ModelProto) -> list[str]:
    """Nodes before the first weights: preprocessing."""
    return _reached(graph, {"image"}, through=PREPROCESSING)


def _reached(
    graph: onnx.ModelProto, values: set[str], through: Collection[str] | None = None
) -> list[str]:
    """The nodes that these values flow into, however far; `through` nodes of these kinds only."""
    reached, names = set(values), []
    # One pass is enough: a graph's nodes are stored in the order of computation.
    for node in graph.graph.node:
        if set(node.input) & reached and (through is None or node.op_type in through):
            reached |= set(node.output)
            names.append(node.name)
    return names
