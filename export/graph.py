"""A device's network as one ONNX graph: stored inputs and prototypes in, scores and features
out.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor, nn
from torch.export import Dim

from edge_agent.inference.bundle import Reading
from edge_agent.networks.net import RELU_OUT, FleetNet
from protofleet.contract import Input
from protofleet.errors import FleetError

OPSET = 18  # what torch's exporter writes by itself: other versions go through a converter
OUTPUTS = ("score", "feature")


class ExportError(FleetError):
    """A model that could not be exported as it is."""

    code = "bad-export"


class Embedder(nn.Module):
    """From what is stored (uint8 N×H×W×C images; float32 vectors and series) to what points are
    compared with.
    """

    def __init__(
        self, net: FleetNet, kind: Input, reading: Reading, *, own_head: bool = True
    ) -> None:
        super().__init__()
        self.net, self.reading, self.image = net.eval(), reading, kind.kind == "image"
        # Rows that a method brings itself read the embedding, whatever the network's own head does.
        self.own_head = own_head and reading.by == "head"
        mean, std = (
            np.asarray(kind.mean or 0.0, np.float64),
            np.asarray(kind.std or 1.0, np.float64),
        )
        whole = 255.0 if self.image else 1.0
        shape = (1, -1, 1, 1) if self.image else (-1,)
        self.scaled = bool(kind.mean) or self.image
        # (x / 255 − mean) / std in one product and one sum.
        self.scale = torch.tensor(1 / (whole * std), dtype=torch.float32).view(shape)
        self.shift = torch.tensor(-mean / std, dtype=torch.float32).view(shape)

    def forward(self, image: Tensor) -> Tensor:
        x = image
        if self.image:
            x = x.permute(0, 3, 1, 2).contiguous().to(torch.float32)
        if self.scaled:
            x = x * self.scale + self.shift
        _, f = self.net.features(x)
        if self.reading.of_unit:
            f = nn.functional.normalize(f)
        if self.reading.through:
            f = self.net.extra(self.reading.through, f)
        if self.own_head:
            f = self.net.before_last(f)
        return nn.functional.normalize(f) if self.reading.metric == "cosine" else f


class Classifying(nn.Module):
    """Features, and their scores against points given from outside: one Gemm, and the ReLU of a
    head that ends in one.
    """

    def __init__(self, embedder: Embedder) -> None:
        super().__init__()
        self.embedder = embedder
        self.relu = embedder.own_head and hasattr(embedder.net.head, RELU_OUT)

    def forward(self, image: Tensor, proto_w: Tensor, proto_b: Tensor) -> tuple[Tensor, Tensor]:
        f = self.embedder(image)
        score = torch.addmm(proto_b, f, proto_w)
        return torch.relu(score) if self.relu else score, f


class Likeliest(nn.Module):
    """The same for Gaussians: log densities are linear in the centred feature and its square."""

    def __init__(self, embedder: Embedder) -> None:
        super().__init__()
        self.embedder = embedder

    def forward(
        self, image: Tensor, proto_w: Tensor, proto_b: Tensor, proto_c: Tensor
    ) -> tuple[Tensor, Tensor]:
        f = self.embedder(image)
        a = f - proto_c
        return torch.addmm(proto_b, torch.cat([a * a, a], 1), proto_w), f


def classifying(
    net: FleetNet, kind: Input, reading: Reading, *, own_head: bool = True
) -> nn.Module:
    """The module that is exported, and the truth its graph is compared with."""
    embedder = Embedder(net, kind, reading, own_head=own_head)
    return Likeliest(embedder) if reading.by == "mixtures" else Classifying(embedder)


def to_onnx(module: nn.Module, kind: Input, points: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    """The graph with points as inputs; the number of samples and of points may change from call to
    call.
    """
    # Two samples: an axis of one would be taken for fixed.
    image = torch.zeros(
        2, *kind.shape, dtype=torch.uint8 if kind.kind == "image" else torch.float32
    )
    point_inputs = [torch.from_numpy(np.array(array)) for array in points.values()]
    many = Dim("p", max=1 << 22)
    axes = {
        "image": {0: Dim("n", max=65_536)},
        "proto_w": {1: many},
        "proto_b": {0: many},
        "proto_c": None,
    }
    # Its warnings are about itself, and the result is compared with the network in any case.
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            module,
            (image, *point_inputs),
            dynamo=True,
            external_data=False,
            opset_version=OPSET,
            verbose=False,
            input_names=["image", *points],
            output_names=list(OUTPUTS),
            dynamic_shapes={name: axes[name] for name in ("image", *points)},
        )
    assert program is not None
    written: bytes = cleaned(program.model_proto).SerializeToString()
    return written


def cleaned(model: onnx.ModelProto) -> onnx.ModelProto:
    """Without the exporter's notes, which hold paths of this machine; of the opset that was asked
    for.
    """
    versions = {opset.domain or "ai.onnx": opset.version for opset in model.opset_import}
    if versions.get("ai.onnx") != OPSET:
        raise ExportError(
            f"the exporter wrote opset {versions.get('ai.onnx')} where {OPSET} was asked for"
        )
    del model.metadata_props[:]
    model.doc_string, model.producer_version = "", ""
    for graph in _graphs(model.graph):
        graph.doc_string = ""
        del graph.metadata_props[:]
        for element in (
            *graph.node,
            *graph.initializer,
            *graph.value_info,
            *graph.input,
            *graph.output,
        ):
            element.doc_string = ""
            del element.metadata_props[:]
    for function in model.functions:
        function.doc_string = ""
        del function.metadata_props[:]
        for node in function.node:
            node.doc_string = ""
            del node.metadata_props[:]
    return model


def _graphs(graph: onnx.GraphProto) -> list[onnx.GraphProto]:
    inner = [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
    return [graph, *(nested for g in inner for nested in _graphs(g))]


def baked(model: bytes, points: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    """The same graph with these points inside it."""
    graph = onnx.load_from_string(model)
    still_inputs = [node for node in graph.graph.input if node.name not in points]
    del graph.graph.input[:]
    graph.graph.input.extend(still_inputs)
    graph.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in points.items()
    )
    written: bytes = graph.SerializeToString()
    return written


def fixed(model: bytes, points: int) -> bytes:
    """The same graph for one sample and this many points: what compilers for phones and
    accelerators want.
    """
    from onnxruntime.tools.onnx_model_utils import make_dim_param_fixed

    graph = onnx.load_from_string(model)
    for name, size in (("n", 1), ("p", points)):
        make_dim_param_fixed(graph.graph, name, size)
    written: bytes = graph.SerializeToString()
    return written


def finished(model: bytes, notes: Mapping[str, str]) -> bytes:
    """The graph with short inner names (a third of a small int8 graph is names) and the manifest's
    essentials.
    """
    graph = onnx.load_from_string(model)
    inner = graph.graph
    del inner.value_info[:]
    # Inputs and outputs are called from outside, and the empty name is an input left out.
    outer = {node.name for node in (*inner.input, *inner.output)}
    short: dict[str, str] = {"": ""} | {name: name for name in outer}
    for weight in inner.initializer:
        weight.name = short.setdefault(weight.name, f"w{len(short)}")
    for i, node in enumerate(inner.node):
        node.name = f"n{i}"
        for names in (node.input, node.output):
            names[:] = [short.setdefault(name, f"v{len(short)}") for name in names]
    onnx.helper.set_model_props(graph, dict(notes))
    written: bytes = graph.SerializeToString()
    return written
