"""A device's network as one ONNX graph: stored inputs and prototypes in, scores and features
out.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.export import Dim

from edge_agent.inference.bundle import Reading
from edge_agent.networks.net import FleetNet
from export.forms import OPSET, ExportError, cleaned
from protofleet.contract import Input

OUTPUTS = ("score", "feature")


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
    """Features, and their scores against points given from outside: one Gemm, and what a head has
    behind its last layer.
    """

    def __init__(self, embedder: Embedder) -> None:
        super().__init__()
        self.embedder = embedder

    def forward(self, image: Tensor, proto_w: Tensor, proto_b: Tensor) -> tuple[Tensor, Tensor]:
        f = self.embedder(image)
        score = torch.addmm(proto_b, f, proto_w)
        return self.embedder.net.after_last(score) if self.embedder.own_head else score, f


class Measuring(nn.Module):
    """An extractor of vectors or series that no method trains: scaled samples in, features times
    `factor` out, and their scores.
    """

    def __init__(self, network: nn.Module, kind: Input, factor: float) -> None:
        super().__init__()
        self.network, self.factor, self.scaled = network, factor, bool(kind.mean)
        scale, shift = _scale(kind)
        self.scale, self.shift = torch.from_numpy(scale), torch.from_numpy(shift)

    def forward(self, image: Tensor, proto_w: Tensor, proto_b: Tensor) -> tuple[Tensor, Tensor]:
        x = image * self.scale + self.shift if self.scaled else image
        f = self.network(x) * self.factor
        return torch.addmm(proto_b, f, proto_w), f


def scaled(x: NDArray[Any], kind: Input) -> NDArray[Any]:
    """Vectors or series as such a network takes them."""
    if not kind.mean:
        return x
    scale, shift = _scale(kind)
    fed: NDArray[Any] = (x * scale + shift).astype(np.float32)
    return fed


def _scale(kind: Input) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    mean, std = np.array(kind.mean or (0.0,)), np.array(kind.std or (1.0,))
    return (1 / std).astype(np.float32), (-mean / std).astype(np.float32)


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
    axes_of = {name: axes[name] for name in ("image", *points)}
    written: bytes = traced(module, (image, *point_inputs), axes_of, OUTPUTS).SerializeToString()
    return written


def bare(network: nn.Module, shape: Sequence[int]) -> onnx.ModelProto:
    """A network that takes floats of N × this shape under the name `x`, by itself."""
    axes = {"x": {0: Dim("n", max=65_536)}}
    return traced(network, (torch.zeros(2, *shape),), axes, ["feature"])


def traced(
    module: nn.Module,
    inputs: tuple[Tensor, ...],
    axes: Mapping[str, Mapping[int, Any] | None],
    outputs: Sequence[str],
) -> onnx.ModelProto:
    """A module by torch's own exporter; `axes` names the inputs and what of each may change."""
    # Its warnings are about itself, and the result is compared with the network in any case.
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            module,
            inputs,
            dynamo=True,
            external_data=False,
            opset_version=OPSET,
            verbose=False,
            input_names=list(axes),
            output_names=list(outputs),
            dynamic_shapes=tuple(axes.values()),  # by place: networks call them as they like
        )
    assert program is not None
    return cleaned(of_opset(program.model_proto))


def of_opset(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model, if it is of the opset that was asked for."""
    versions = {opset.domain or "ai.onnx": opset.version for opset in model.opset_import}
    if versions.get("ai.onnx") != OPSET:
        raise ExportError(
            f"the exporter wrote opset {versions.get('ai.onnx')} where {OPSET} was asked for"
        )
    return model
