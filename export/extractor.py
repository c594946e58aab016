"""An extractor as data: a graph from stored samples to features and how to feed it, whatever source
it comes from; no class belongs to it yet.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from edge_agent.inference.bundle import ANTIALIASED
from export import onnx_source, verify
from export.feeding import SourceTerms, fed, shown
from export.forms import ExportError, finished
from export.onnx_source import Entrance, Network, averaged, composed, scaled, short
from protofleet.contract import Input
from protofleet.errors import DataError, UsageError
from protofleet.exchange.published import graph_lineage
from protofleet.values.prototypes import Floats

if TYPE_CHECKING:
    from export.torch_source import TorchNetwork

ENTRY_POINT = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
# Half precision, in which means of features travel, holds 2⁻¹⁴ to 2¹⁶, and the exact sums a similar
# range: features whose largest lies within these bounds need not be moved.
LEAST_PEAK, MOST_PEAK = 2.0**-4, 2.0**8


@dataclass(frozen=True, eq=False)
class Extractor:
    """`embed` is the source's own answer to stored samples, which the graph is held to."""

    name: str
    input: Input
    model: bytes  # in full precision
    embedding: int
    factor: float  # what the source's features are multiplied by
    embed: Callable[[NDArray[Any]], Floats]

    @property
    def lineage(self) -> str:
        """Graph and feeding; the forms with fewer bits share it."""
        graph = finished(self.model, {})
        return graph_lineage(graph, self.embedding, self.input, ANTIALIASED)

    @property
    def feeding(self) -> str:
        """In words."""
        return shown(self.input)


def no_points(embedding: int) -> dict[str, Floats]:
    """The graph's other inputs while there is no class."""
    return {
        "proto_w": np.zeros((embedding, 0), np.float32),
        "proto_b": np.zeros(0, np.float32),
    }


def extractor(terms: SourceTerms) -> Extractor:
    """Whatever SOURCE is, or one line that says what is missing."""
    path = Path(terms.source)
    if terms.numbers is not None and (path.is_file() or path.suffix.lower() == ".onnx"):
        raise UsageError("an ONNX file is fed with images", "module:function takes other samples")
    if path.is_file() or path.suffix.lower() == ".onnx":
        return _of_file(path, terms)
    if terms.output or terms.layout:
        raise UsageError("--output and --layout go with an ONNX file")
    if not re.fullmatch(r"\w+", terms.source) and not ENTRY_POINT.fullmatch(terms.source):
        raise DataError(
            f"{terms.source}: no such file", "a source is a name, module:function or an ONNX file"
        )
    return _of_torch(terms)


def _of_file(path: Path, terms: SourceTerms) -> Extractor:
    if path.suffix.lower() in (".pt", ".pth"):
        raise UsageError(
            f"{path} holds weights of a network", f"extractor NETWORK --weights {path}"
        )
    if terms.weights:
        raise UsageError("--weights goes with a network's name, an ONNX file has its own")
    network = onnx_source.of_file(path, terms.output, terms.layout, terms.size)
    at = network.entrance
    if at.scales_itself and terms.scale:
        raise UsageError(f"{path.name} takes pixels as they are stored", "leave --scale out")
    kind = Input("image", at.shape) if at.scales_itself else fed(path.name, at.shape, terms.scale)
    return _composed(path.stem, network, kind, network.embed)


def _of_torch(terms: SourceTerms) -> Extractor:
    from export import graph, torch_source

    source = torch_source.network(terms)
    if terms.numbers is not None:
        return _of_numbers(terms.source.replace(":", "."), source)
    height, width, channels = source.input.shape
    try:
        model = graph.bare(source.module, (channels, height, width))
    except Exception as error:  # torch's exporter raises a tale of what it tried
        why = short(error.__cause__ if isinstance(error.__cause__, Exception) else error)
        raise ExportError(f"torch cannot write {terms.source} as ONNX: {why}") from error
    model = onnx_source.standard(model, terms.source)
    at = Entrance("x", "NCHW", TensorProto.FLOAT, (height, width, channels), 0)
    network = Network(model, at, model.graph.output[0].name)
    return _composed(
        terms.source.replace(":", "."),
        network,
        source.input,
        lambda x: averaged(source.embed(x), at.layout),
    )


def _of_numbers(name: str, source: TorchNetwork) -> Extractor:
    """Of vectors and series: the network between a scale and the product with points."""
    from export import graph

    kind = source.input
    x = verify.patterns(kind)
    features = _as_rows(source.embed(graph.scaled(x, kind)), name)
    factor = _factor(features, name)
    module = graph.Measuring(source.module, kind, factor)
    points = {
        "proto_w": np.zeros((features.shape[1], 2), np.float32),
        "proto_b": np.zeros(2, np.float32),
    }
    try:
        model = graph.to_onnx(module, kind, points)
    except Exception as error:  # torch's exporter raises a tale of what it tried
        why = short(error.__cause__ if isinstance(error.__cause__, Exception) else error)
        raise ExportError(f"torch cannot write {name} as ONNX: {why}") from error
    return Extractor(
        name,
        kind,
        model,
        features.shape[1],
        factor,
        lambda samples: source.embed(graph.scaled(samples, kind)) * np.float32(factor),
    )


def _as_rows(features: NDArray[Any], name: str) -> Floats:
    if features.ndim != 2:
        sizes = "×".join(map(str, features.shape))
        raise ExportError(f"{name} gives {sizes}, a row of numbers for each sample is due")
    rows: Floats = features.astype(np.float32)
    return rows


def _composed(
    name: str, network: Network, kind: Input, embed: Callable[[NDArray[Any]], Floats]
) -> Extractor:
    model, at = composed(network, kind), network.entrance
    x = verify.patterns(kind)
    own = embed(scaled(x, at, kind))
    factor = _factor(own, network.feature)
    if factor != 1:
        model = composed(network, kind, factor)
    return Extractor(
        name,
        kind,
        model,
        own.shape[1],
        factor,
        lambda images: embed(scaled(images, at, kind)) * np.float32(factor),
    )


def _factor(features: Floats, what: str) -> float:
    """The power of two that brings features to where half precision and exact sums hold them."""
    if not np.isfinite(features).all():
        raise ExportError(f"{what}: features that are not finite", "is the scale the right one?")
    peak = float(np.abs(features).max(initial=0))
    if float(np.ptp(features, axis=0).max(initial=0)) <= 1e-6 * peak:
        raise ExportError(f"{what} is the same for every picture", "--output names another value")
    return 1.0 if LEAST_PEAK <= peak <= MOST_PEAK else 2.0 ** -math.floor(math.log2(peak))
