"""The forms that a graph ships in, each made of the one before it; onnx alone, no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx

from protofleet.errors import FleetError

OPSET = 18  # what torch's exporter writes by itself: other versions go through a converter


class ExportError(FleetError):
    """A model that could not be exported as it is."""

    code = "bad-export"


def cleaned(model: onnx.ModelProto) -> onnx.ModelProto:
    """Without its exporter's notes, which hold paths of the machine it was made on."""
    del model.metadata_props[:]
    model.doc_string, model.producer_version = "", ""
    for graph in inner_graphs(model.graph):
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


def in_order(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same graph with each node behind those it reads from, as the standard has it."""
    makers = {name: node for node in model.graph.node for name in node.output}
    placed: dict[int, onnx.NodeProto] = {}
    for node in model.graph.node:
        waiting = [node]
        while waiting:
            before = [makers[n] for n in reads(waiting[-1]) if n in makers]
            missing = [other for other in before if id(other) not in placed]
            if missing:
                waiting += missing
            else:
                last = waiting.pop()
                placed.setdefault(id(last), last)
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in placed.values()]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def reads(node: onnx.NodeProto) -> Iterator[str]:
    """The values a node reads, in graphs inside it as well."""
    yield from node.input
    for attribute in node.attribute:
        for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
            for inner in graph.node:
                yield from reads(inner)
            yield from (node.name for node in graph.output)


def inner_graphs(graph: onnx.GraphProto) -> list[onnx.GraphProto]:
    """A graph and all that are inside its nodes."""
    inner = [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
    return [graph, *(nested for g in inner for nested in inner_graphs(g))]


def valid(model: bytes, what: str) -> bytes:
    """The same bytes, if the standard's own checker passes them whole: its operators and their
    types, an order in which everything is made before it is read, and the shape of every value.
    """
    graph = onnx.load_from_string(model)
    try:
        onnx.checker.check_model(graph, full_check=True)
        onnx.shape_inference.infer_shapes(graph, check_type=True, strict_mode=True, data_prop=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        words = " ".join(str(error).split())
        raise ExportError(f"{what} is no valid ONNX: {words[:200]}") from None
    return model


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
    onnx.helper.set_model_props(graph, dict(notes))
    # Graphs inside a node (loops, branches) read values of this one by their names.
    if len(inner_graphs(inner)) > 1:
        named: bytes = graph.SerializeToString()
        return named
    # Inputs and outputs are called from outside, and the empty name is an input left out.
    outer = {node.name for node in (*inner.input, *inner.output)}
    short: dict[str, str] = {"": ""} | {name: name for name in outer}
    for weight in inner.initializer:
        weight.name = short.setdefault(weight.name, f"w{len(short)}")
    for i, node in enumerate(inner.node):
        node.name = f"n{i}"
        for names in (node.input, node.output):
            names[:] = [short.setdefault(name, f"v{len(short)}") for name in names]
    written: bytes = graph.SerializeToString()
    return written
