"""An ONNX file as an extractor: where images go in and where the feature comes out is read off the
file; the scaling goes in front of it and the product with points behind it. No torch.
"""

# Theory of operation
#
# A bundle's graph is the same whatever network is in it:
#
#   image -> [layout, type, scale] -> the file's own nodes -> [mean over places] -> feature -> Gemm
#
# Four things have to be known of a file that somebody else wrote, and none is guessed in silence:
#
#   what it takes      its one input of four sizes. Channels are where 1, 3 or 4 stands, else where
#                      the first convolution wants them, else the caller says. Size: the file's, or
#                      the caller's where the file leaves it open.
#   how it was fed     the scale is in no file, so the caller says it; an input of uint8 is its own.
#   what its feature   is its only output, unless a linear layer or a softmax made that: then it is
#                      more likely scores of classes, and the caller chooses. A map of features
#                      (four sizes) is averaged over its places.
#   that it is right   the composed graph is run beside the file, which gets one image at a time
#
# A batch that is fixed is opened: the input's first size becomes free, and so does a first size of
# that number in what a Reshape is told. Whether that was all is seen by the same comparison, which
# is between a batch and single images; a file for which it was not is refused.
#
# Names of the file get a prefix, since it may well call something `image` or `score`.

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.inliner import inline_local_functions

from edge_agent.inference.session import runtime
from export.feeding import Size
from export.forms import OPSET, ExportError, cleaned, inner_graphs, reads
from protofleet.contract import Input
from protofleet.errors import DataError, UsageError
from protofleet.values.prototypes import Floats

Layout = Literal["NCHW", "NHWC"]

LAYOUTS: tuple[Layout, ...] = ("NCHW", "NHWC")
OPSETS = range(13, 22)  # int8 by channel needs 13; 21 is what onnxruntime 1.20 knows
LATEST_IR = 10  # likewise
CHANNELS = (1, 3, 4)
TYPES: Mapping[int, Any] = {
    TensorProto.FLOAT: np.float32,
    TensorProto.FLOAT16: np.float16,
    TensorProto.DOUBLE: np.float64,
    TensorProto.UINT8: np.uint8,
}
LINEAR = ("Gemm", "MatMul")
# What may stand between a layer and an output without making another feature of it.
SHAPED = ("Identity", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Dropout", "Add")
ARITHMETIC = ("Identity", "Cast", "Sub", "Add", "Mul", "Div", "Pad")
POINTWISE = (*ARITHMETIC, "QuantizeLinear", "DequantizeLinear")
SOFTMAX = ("Softmax", "LogSoftmax", "Sigmoid")
OWN = "own/"  # in front of every name of the file's


@dataclass(frozen=True)
class Entrance:
    """The one input: `batch` is the number that is fixed in the file, 0 where any may come."""

    name: str
    layout: Layout
    dtype: int
    shape: tuple[int, int, int]  # height, width, channels
    batch: int

    @property
    def scales_itself(self) -> bool:
        """Whether it takes pixels as they are stored."""
        return self.dtype == TensorProto.UINT8


@dataclass(frozen=True, eq=False)
class Network:
    """A graph, where images go in and where the feature comes out."""

    model: onnx.ModelProto
    entrance: Entrance
    feature: str

    def embed(self, x: NDArray[Any]) -> Floats:
        """What it gives for inputs as the file itself takes them, one image at a time."""
        at = self.entrance
        live, times = session(with_output(self.model, self.feature)), max(at.batch, 1)
        rows = []
        for one in x:
            batch = np.repeat(one[None], times, 0).astype(TYPES[at.dtype])
            rows.append(ran(live, [self.feature], {at.name: batch})[0][:1])
        return averaged(np.concatenate(rows), at.layout)


def of_file(path: Path, output: str, layout: str, size: Size | None) -> Network:
    """A file with its feature and its input made out, or one line that says what is missing."""
    model = standard(loaded(path), path.name)
    at = entrance(model, layout, size, path.name)
    feature = feature_of(model, output, path.name)
    return Network(only_for(model, feature), at, feature)


def loaded(path: Path) -> onnx.ModelProto:
    """The file, with weights that lie beside it."""
    try:
        model = onnx.load(path)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from None
    except Exception as error:  # protobuf's DecodeError, and what onnx makes of missing weights
        raise DataError(f"{path}: not a readable ONNX file ({short(error)})") from None
    if not model.graph.node:
        raise DataError(f"{path}: not an ONNX file, or one without a graph")
    return model


def standard(model: onnx.ModelProto, what: str) -> onnx.ModelProto:
    """In standard operators, of a version that every onnxruntime of ours runs."""
    if model.functions:
        model = inline_local_functions(model)
    domains = {node.domain for graph in inner_graphs(model.graph) for node in graph.node}
    if foreign := sorted(domains - {"", "ai.onnx"}):
        raise ExportError(
            f"{what} holds operators of {', '.join(foreign)}, which not every runtime has",
            "export it with standard operators alone",
        )
    version = opset(model)
    if version not in OPSETS:
        try:
            model = onnx.version_converter.convert_version(model, OPSET)
        except Exception as error:  # it raises whatever its C++ half does
            raise ExportError(
                f"{what} is of opset {version} and cannot be made {OPSET} ({short(error)})",
                f"export it with opset {OPSET}",
            ) from None
    # Sizes that were noted for a fixed batch would contradict the open one.
    del model.graph.value_info[:]
    return cleaned(_constants_as_weights(model))


def _constants_as_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """One place for what is stored: some exporters write it as nodes."""
    nodes = []
    for node in model.graph.node:
        stored = [a.t for a in node.attribute if a.name == "value"]
        if node.op_type == "Constant" and stored:
            model.graph.initializer.add().CopyFrom(stored[0])
            model.graph.initializer[-1].name = node.output[0]
        else:
            nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def opset(model: onnx.ModelProto) -> int:
    """The version of its standard operators."""
    return next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)


def entrance(model: onnx.ModelProto, layout: str, size: Size | None, what: str) -> Entrance:
    """Its one input, and the size that images have there."""
    weights = {w.name for w in model.graph.initializer}
    inputs = [node for node in model.graph.input if node.name not in weights]
    if len(inputs) != 1:
        names = ", ".join(node.name for node in inputs) or "none"
        raise ExportError(f"{what} has {len(inputs)} inputs ({names}), one image is due")
    name, tensor = inputs[0].name, inputs[0].type.tensor_type
    sizes = [d.dim_value if d.HasField("dim_value") else 0 for d in tensor.shape.dim]
    if len(sizes) != 4:
        raise ExportError(f"{what} takes inputs of {len(sizes)} sizes ({_shown(sizes)}), no images")
    if tensor.elem_type not in TYPES:
        kind = TensorProto.DataType.Name(tensor.elem_type)
        raise ExportError(f"{what} takes {kind}; floats or uint8 are due")
    order = layout or _layout(model, name, sizes)
    if order not in LAYOUTS:
        raise UsageError(
            f"{what} does not say where its channels are ({_shown(sizes)})",
            f"--layout {' or '.join(LAYOUTS)}",
        )
    channels, *sides = (
        (sizes[1], sizes[2], sizes[3]) if order == "NCHW" else (sizes[3], sizes[1], sizes[2])
    )
    channels = channels or _wanted_channels(model, name)
    if channels not in CHANNELS:
        raise ExportError(f"{what} takes {channels} channels, images have 1, 3 or 4")
    height, width = _size(sides, size, what)
    return Entrance(name, order, tensor.elem_type, (height, width, channels), max(sizes[0], 0))


def _size(sides: list[int], size: Size | None, what: str) -> Size:
    if size is None and not all(side > 0 for side in sides):
        raise UsageError(f"{what} takes images of any size", "--size as it was trained with")
    size = size or (sides[0], sides[1])
    for side, fixed in zip(size, sides, strict=True):
        if fixed > 0 and side != fixed:
            raise UsageError(
                f"{what} takes images of {sides[0]}×{sides[1]} only", "no other --size"
            )
    return size


def _layout(model: onnx.ModelProto, name: str, sizes: list[int]) -> str:
    first, last = sizes[1] in CHANNELS, sizes[3] in CHANNELS
    if first != last:
        return "NCHW" if first else "NHWC"
    user = _first_use(model, name)
    if user is not None and user.op_type == "Conv":
        return "NCHW"
    if user is not None and user.op_type == "Transpose":
        turn = next((list(a.ints) for a in user.attribute if a.name == "perm"), [])
        return "NHWC" if turn == [0, 3, 1, 2] else ""
    return ""


def _wanted_channels(model: onnx.ModelProto, name: str) -> int:
    user = _first_use(model, name)
    weight = next((w for w in model.graph.initializer if user and w.name in user.input[1:2]), None)
    return int(weight.dims[1]) if weight is not None and len(weight.dims) == 4 else 3


def _first_use(model: onnx.ModelProto, name: str) -> onnx.NodeProto | None:
    """The first node behind a value that is more than arithmetic on each of its numbers."""
    for _ in model.graph.node:
        user = next((node for node in model.graph.node if name in node.input), None)
        if user is None or user.op_type not in POINTWISE:
            return user
        name = user.output[0]
    return None


def feature_of(model: onnx.ModelProto, output: str, what: str) -> str:
    """The value that is the feature: the caller's word, or the file's where that is plain."""
    makers = {name: node for node in model.graph.node for name in node.output}
    if output:
        if output not in makers:
            near = difflib.get_close_matches(output, makers, 3)
            outputs = [node.name for node in model.graph.output]
            raise UsageError(
                f"{what} computes nothing that is called {output!r}",
                f"did you mean {', '.join(near)}?" if near else f"its outputs: {_few(outputs)}",
            )
        return output
    outputs = [node.name for node in model.graph.output]
    if len(outputs) != 1:
        raise UsageError(f"{what} has {len(outputs)} outputs", f"--output, one of {_few(outputs)}")
    last: str = outputs[0]
    scores, maker = False, makers.get(last)
    while maker is not None and maker.op_type in (*SHAPED, *SOFTMAX):
        scores = scores or maker.op_type in SOFTMAX
        behind = [makers[name] for name in maker.input if name in makers]
        # A bias is stored. A sum of two values that were computed joins two branches. What else a
        # Reshape reads is sizes.
        joins = maker.op_type == "Add" and len(behind) > 1
        maker = behind[0] if behind and not joins else None
    if maker is not None and (scores or maker.op_type in LINEAR):
        before = next((name for name in maker.input if name in makers), "")
        proposal = f"--output {before} for what goes into it, " if before else ""
        raise UsageError(
            f"{what} ends in a {'softmax' if scores else 'linear layer'}, as classifiers do",
            f"{proposal}--output {last} for what comes out",
        )
    return last


def only_for(model: onnx.ModelProto, value: str) -> onnx.ModelProto:
    """The nodes and weights that this value is computed from, and nothing behind it."""
    wanted, nodes = {value}, []
    for node in reversed(model.graph.node):
        if wanted & set(node.output):
            nodes.append(node)
            wanted |= set(reads(node))
    part = onnx.ModelProto()
    part.CopyFrom(model)
    del part.graph.node[:], part.graph.initializer[:], part.graph.sparse_initializer[:]
    part.graph.node.extend(reversed(nodes))
    part.graph.initializer.extend(w for w in model.graph.initializer if w.name in wanted)
    part.graph.sparse_initializer.extend(
        w for w in model.graph.sparse_initializer if w.values.name in wanted
    )
    return with_output(part, value)


def with_output(model: onnx.ModelProto, value: str) -> onnx.ModelProto:
    """The same graph, giving this value alone; of what type and shape is for the runtime to find
    out.
    """
    part = onnx.ModelProto()
    part.CopyFrom(model)
    del part.graph.output[:]
    part.graph.output.append(onnx.ValueInfoProto(name=value))
    part.ir_version = min(part.ir_version, LATEST_IR)
    return part


def composed(network: Network, kind: Input, factor: float = 1.0) -> bytes:
    """The bundle's graph; features are multiplied by `factor`."""
    at = network.entrance
    body = onnx.compose.add_prefix(_any_batch(network.model, at), OWN)
    of_type, rank, width = _probed(network, at)
    if rank not in (2, 4):
        raise ExportError(
            f"{network.feature} has {rank} sizes; a row of numbers for each image is due, or a map",
            "--output names another value",
        )
    if of_type not in TYPES:
        raise ExportError(f"{network.feature} is no row of floats", "--output names another value")
    for i, node in enumerate(body.graph.node):  # the quantiser knows nodes by name
        node.name = f"{OWN}{i}"
    front, front_weights = _front(at, kind)
    behind, behind_weights = _behind(network, of_type, rank, factor, opset(body))
    graph = helper.make_graph(
        [*front, *body.graph.node, *behind],
        "extractor",
        [
            helper.make_tensor_value_info("image", TensorProto.UINT8, ["n", *at.shape]),
            helper.make_tensor_value_info("proto_w", TensorProto.FLOAT, [width, "p"]),
            helper.make_tensor_value_info("proto_b", TensorProto.FLOAT, ["p"]),
        ],
        [
            helper.make_tensor_value_info("score", TensorProto.FLOAT, ["n", "p"]),
            helper.make_tensor_value_info("feature", TensorProto.FLOAT, ["n", width]),
        ],
        [*front_weights, *body.graph.initializer, *behind_weights],
        sparse_initializer=list(body.graph.sparse_initializer),
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", opset(body))],
        ir_version=min(body.ir_version, LATEST_IR),
    )
    checked(model, network.feature)
    _takes_many(model, at, width)
    written: bytes = model.SerializeToString()
    return written


def checked(model: onnx.ModelProto, what: str) -> None:
    """Held to the standard, sizes and types included."""
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:  # ValidationError and InferenceError have no class in common
        raise ExportError(f"{what}: the composed graph is not valid ({short(error)})") from None


def _takes_many(model: onnx.ModelProto, at: Entrance, width: int) -> None:
    nothing = np.zeros((width, 0), np.float32)
    feeds = {"image": np.zeros((3, *at.shape), np.uint8), "proto_w": nothing, "proto_b": nothing[0]}
    try:
        ran(session(model), ["feature"], feeds)
    except ExportError as error:
        raise ExportError(
            f"the graph does not take three images at once ({error.words})",
            "export it with a batch of any size",
        ) from None


def scaled(x: NDArray[np.uint8], at: Entrance, kind: Input) -> NDArray[Any]:
    """Stored images as the network itself takes them."""
    batch = x if at.layout == "NHWC" else x.transpose(0, 3, 1, 2)
    if at.scales_itself:
        return batch
    scale, shift = constants(at, kind)
    fed: NDArray[Any] = batch.astype(np.float32) * scale + shift
    return fed


def constants(at: Entrance, kind: Input) -> tuple[Floats, Floats]:
    """(x / 255 − mean) / std in one product and one sum."""
    shape = (1, 1, 1, -1) if at.layout == "NHWC" else (1, -1, 1, 1)
    mean, std = (np.asarray(numbers, np.float64) for numbers in (kind.mean, kind.std))
    scale, shift = (1 / (255 * std)).astype(np.float32), (-mean / std).astype(np.float32)
    return scale.reshape(shape), shift.reshape(shape)


def averaged(y: NDArray[Any], layout: Layout) -> Floats:
    """Rows of numbers; a map's mean over its places."""
    if y.ndim == 4:
        y = y.astype(np.float64).mean((2, 3) if layout == "NCHW" else (1, 2))
    return np.ascontiguousarray(y, np.float32)


def _front(at: Entrance, kind: Input) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    steps: list[tuple[str, list[str], dict[str, Any]]] = []
    weights: list[onnx.TensorProto] = []
    if at.layout == "NCHW":
        steps.append(("Transpose", [], {"perm": [0, 3, 1, 2]}))
    if not at.scales_itself:
        scale, shift = constants(at, kind)
        weights = [numpy_helper.from_array(scale, "scale"), numpy_helper.from_array(shift, "shift")]
        steps += [("Cast", [], {"to": TensorProto.FLOAT}), ("Mul", ["scale"], {})]
        steps.append(("Add", ["shift"], {}))
        if at.dtype != TensorProto.FLOAT:
            steps.append(("Cast", [], {"to": at.dtype}))
    return _chain("image", steps, OWN + at.name), weights


def _behind(
    network: Network, of_type: int, rank: int, factor: float, version: int
) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    steps: list[tuple[str, list[str], dict[str, Any]]] = []
    weights: list[onnx.TensorProto] = []
    if of_type != TensorProto.FLOAT:
        steps.append(("Cast", [], {"to": TensorProto.FLOAT}))
    if rank == 4:
        places = [2, 3] if network.entrance.layout == "NCHW" else [1, 2]
        # From opset 18 on the axes are an input and no attribute.
        if version >= 18:
            weights.append(numpy_helper.from_array(np.array(places, np.int64), "places"))
            steps.append(("ReduceMean", ["places"], {"keepdims": 0}))
        else:
            steps.append(("ReduceMean", [], {"keepdims": 0, "axes": places}))
    if factor != 1:
        weights.append(numpy_helper.from_array(np.array(factor, np.float32), "factor"))
        steps.append(("Mul", ["factor"], {}))
    nodes = _chain(OWN + network.feature, steps, "feature")
    nodes.append(helper.make_node("Gemm", ["feature", "proto_w", "proto_b"], ["score"], "compare"))
    return nodes, weights


def _chain(
    value: str, steps: list[tuple[str, list[str], dict[str, Any]]], to: str
) -> list[onnx.NodeProto]:
    """Nodes one behind the other, from one value to another."""
    nodes = []
    for i, (kind, more, attributes) in enumerate(steps or [("Identity", [], {})], 1):
        result = to if i >= len(steps) else f"{to}.{i}"
        name = f"{result}.{kind}"
        nodes.append(helper.make_node(kind, [value, *more], [result], name, **attributes))
        value = result
    return nodes


def _any_batch(model: onnx.ModelProto, at: Entrance) -> onnx.ModelProto:
    """The same graph for any number of images, as far as that is for the file to say."""
    free = onnx.ModelProto()
    free.CopyFrom(model)
    (tensor,) = (n.type.tensor_type for n in free.graph.input if n.name == at.name)
    tensor.shape.dim[0].dim_param = "n"
    if not at.batch:
        return free
    weights = {w.name: w for w in free.graph.initializer}
    for node in free.graph.node:
        target = weights.get(node.input[1]) if node.op_type == "Reshape" else None
        if target is None:
            continue
        sizes = numpy_helper.to_array(target).copy()
        if (
            sizes.size < 2
            or sizes[0] != at.batch
            or any(a.name == "allowzero" for a in node.attribute)
        ):
            continue
        sizes[0] = 0  # as many as come in
        node.input[1] = f"{target.name}.any"
        if node.input[1] not in weights:
            weights[node.input[1]] = numpy_helper.from_array(sizes, node.input[1])
            free.graph.initializer.append(weights[node.input[1]])
    return free


def _probed(network: Network, at: Entrance) -> tuple[int, int, int]:
    """Type, number of sizes and width of the feature, by computing one."""
    height, width, channels = at.shape
    shape = (channels, height, width) if at.layout == "NCHW" else at.shape
    x = np.zeros((max(at.batch, 1), *shape), TYPES[at.dtype])
    y = ran(session(network.model), [network.feature], {at.name: x})[0]
    of_type = next((t for t, numbers in TYPES.items() if y.dtype == numbers), 0)
    places = 1 if at.layout == "NCHW" else -1
    return of_type, y.ndim, int(y.shape[places]) if y.ndim > 1 else 0


def session(model: onnx.ModelProto) -> Any:
    """onnxruntime on a graph, its complaints in one line."""
    ort = runtime()
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        return ort.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # onnxruntime raises a class of its own for each of its codes
        raise ExportError(f"onnxruntime does not load it: {short(error)}") from None


def ran(live: Any, outputs: list[str], feeds: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
    """A call of a session, its complaints in one line."""
    try:
        results: list[NDArray[Any]] = live.run(outputs, feeds)
    except Exception as error:
        raise ExportError(f"onnxruntime does not run it: {short(error)}") from None
    return results


def short(error: Exception) -> str:
    """The first words of an error of somebody else's."""
    return " ".join(str(error).split())[:160] or type(error).__name__


def _shown(sizes: Iterable[int]) -> str:
    return "×".join(str(size) if size > 0 else "?" for size in sizes)


def _few(names: list[str]) -> str:
    return ", ".join(names[:6]) + (", …" if len(names) > 6 else "")
