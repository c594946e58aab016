"""The same graph in fewer bits: fp16 weights, or int8 by static QDQ, calibrated on local
samples.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from edge_agent.inference.bundle import Precision, Reading
from edge_agent.inference.inputs import Ready, ready
from edge_agent.inference.session import runtime
from export import verify
from export.graph import cleaned
from export.source import Trial
from protofleet.exchange.published import Bank
from protofleet.values.prototypes import Floats

QUANTISED = (
    "Conv",
    "Gemm",
    "MatMul",
)  # what holds the weights and costs the time; the rest stays in floats between
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
    made: Ready,
    bank: Bank,
    reading: Reading,
) -> Lower:
    """The graph, with prototypes recomputed through it: each moves as the mean feature of its class
    does.
    """
    if precision == "fp16":
        return Lower(halved(model), {}, made)
    quantised = to_int8(model, calibration, made.inputs)
    drift = {}
    if reading.by != "head":
        _, before = verify.scores(model, calibration.x, made.inputs)
        _, after = verify.scores(quantised, calibration.x, made.inputs)
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
    written: bytes = convert_float_to_float16(
        graph, keep_io_types=True, node_block_list=_head(graph), disable_shape_infer=False
    ).SerializeToString()
    return written


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
    found, names = {"feature", "proto_w", "proto_b", "proto_c"} - {""}, []
    for node in graph.graph.node:
        if set(node.input) & found:
            found |= set(node.output)
            names.append(node.name)
    return names


def _before(graph: onnx.ModelProto) -> list[str]:
    """Nodes before the first weights: preprocessing."""
    found, names = {"image"}, []
    for node in graph.graph.node:
        if set(node.input) & found and node.op_type not in QUANTISED:
            if node.op_type not in (
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
            ):
                continue
            found |= set(node.output)
            names.append(node.name)
    return names
