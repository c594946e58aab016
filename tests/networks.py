"""ONNX files as other people write them, small, for tests of what reads them."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(11)
FILTERS, CHANNELS, SIDE = 8, 3, 16
WEIGHTS = {
    "conv": (RNG.normal(size=(FILTERS, CHANNELS, 3, 3)) / 3).astype(np.float32),
    "fc": RNG.normal(size=(FILTERS, 5)).astype(np.float32),
    "fc_bias": RNG.normal(size=5).astype(np.float32),
    "flat": np.array([1, FILTERS], np.int64),
}


def foreign(
    path=None,
    *,
    shape=("batch", CHANNELS, SIDE, SIDE),
    dtype=TensorProto.FLOAT,
    end="pool",
    version=17,
    nodes=(),
    reshaped=False,
):
    """A convolution, a ReLU, a mean over places, and what `end` says: `map`, `pool`, `fc`,
    `softmax`. Channels last where the shape says so.
    """
    layers = list(nodes)
    value = "image"  # as a bundle's own input is called
    if dtype != TensorProto.FLOAT:
        layers.append(helper.make_node("Cast", [value], ["float"], to=TensorProto.FLOAT))
        value = "float"
    if shape[3] == CHANNELS:
        layers.append(helper.make_node("Transpose", [value], ["turned"], perm=[0, 3, 1, 2]))
        value = "turned"
    layers.append(helper.make_node("Conv", [value, "conv"], ["conv_out"], pads=[1, 1, 1, 1]))
    layers.append(helper.make_node("Relu", ["conv_out"], ["map"]))
    layers.append(helper.make_node("GlobalAveragePool", ["map"], ["pooled"]))
    if reshaped:
        layers.append(helper.make_node("Reshape", ["pooled", "flat"], ["pool"]))
    else:
        layers.append(helper.make_node("Flatten", ["pooled"], ["pool"]))
    layers.append(helper.make_node("Gemm", ["pool", "fc", "fc_bias"], ["fc_out"]))
    layers.append(helper.make_node("Softmax", ["fc_out"], ["softmax"]))
    names = {"map": "map", "pool": "pool", "fc": "fc_out", "softmax": "softmax"}
    outputs = [end] if isinstance(end, str) else end
    graph = helper.make_graph(
        layers,
        "somebody's",
        [helper.make_tensor_value_info("image", dtype, shape)],
        [onnx.ValueInfoProto(name=names[output]) for output in outputs],
        [numpy_helper.from_array(array, name) for name, array in WEIGHTS.items()],
    )
    for output in graph.output:
        output.type.tensor_type.elem_type = TensorProto.FLOAT
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=8)
    if path is not None:
        onnx.save(model, path)
    return model


def by_hand(x, mean=0.0, std=1.0):
    """The mean features of stored images [N, H, W, C]: the same network in numpy."""
    x = (x.astype(np.float64) / 255 - mean) / std
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    maps = np.einsum("nhwcij,fcij->nhwf", windows, WEIGHTS["conv"].astype(np.float64))
    return np.maximum(maps, 0).mean((1, 2))


def extractor_bundle(path, precision="fp32", photos=None):
    """A bundle of such a file, in which no class is known."""
    from export.extractor import extractor
    from export.feeding import HALF, SourceTerms
    from export.writer import Wanted, export_extractor, write

    file = path.with_name(f"{path.stem}.file.onnx")
    foreign(file)
    built = extractor(SourceTerms(str(file), scale=HALF))
    want = Wanted(precision, smallest=True)
    return write(export_extractor(built, want, "f", photos), path)


def pictures(seed, n=6, side=SIDE):
    """Noise around a colour of its own: what a small network tells apart."""
    rng = np.random.default_rng(seed)
    colour = np.random.default_rng(1000 + seed).integers(20, 236, 3)
    noise = rng.normal(0, 12, (n, side, side, 3))
    return np.clip(colour + noise, 0, 255).astype(np.uint8)
