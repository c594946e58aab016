"""Fewer bits: smaller, nearly the same answers, and the prototypes follow the extractor."""

import numpy as np
import onnx
import pytest

from edge_agent.inference.bundle import Reading
from edge_agent.inference.classifier import Classifier
from edge_agent.inference.inputs import ready
from export import graph
from export.quantise import lowered, to_int8
from export.trial import Trial
from export.verify import scores
from export.writer import Wanted, export, write
from protofleet.exchange.published import About, Bank
from tests.bundles import device


@pytest.fixture(scope="module")
def full():
    """A bank, its graph in full precision, and what that was made of."""
    source = device("mlp-wide")
    bank = Bank(About("run:f/r", source.contract.classes), source.scorers["prototype"].prototypes)
    reading = Reading("prototypes")
    points = ready(bank, reading)
    module = graph.classifying(source.net, source.contract.input, reading)
    return source, bank, points, graph.to_onnx(module, source.contract.input, points.inputs)


@pytest.mark.parametrize(("precision", "size", "same"), [("fp16", 0.6, 0.98), ("int8", 0.5, 0.9)])
def test_fewer_bits_are_smaller_and_say_the_same(precision, size, same, tmp_path):
    source = device("mlp-wide")
    made = export(source, Wanted(precision=precision, smallest=True))
    full, lower = made.report["fp32"], made.report[precision]
    assert made.manifest.precision == precision
    assert lower["bytes"] < size * full["bytes"]
    assert lower["agreement"] >= same
    classifier = Classifier(write(made, tmp_path / "b"))
    # Drift is the graph's: published prototypes stay as they are.
    assert classifier.loaded.state == export(source, Wanted()).manifest.state


def test_prototypes_move_as_the_features_of_their_class_do(full):
    source, bank, points, model = full
    few = Trial(source.calibration.x[:64], np.where(source.calibration.y[:64] == 9, -1, 0))
    lower = lowered("int8", model, few, points, bank, Reading("prototypes"))
    _, before = scores(model, few.x, points.inputs)
    _, after = scores(lower.model, few.x, points.inputs)
    assert set(lower.drift) == {"", "0"}  # a sample without a label is of no class
    assert np.allclose(lower.drift[""], (after - before).mean(0), atol=1e-6)
    own = (after - before)[few.y == 0].mean(0)
    moved = lower.ready.inputs["proto_w"].T / 2 - bank.points.vectors
    assert np.allclose(moved[0], own, atol=1e-5)
    assert np.allclose(moved[1:], lower.drift[""], atol=1e-5)


def test_half_precision_moves_nothing_and_keeps_its_inputs(full):
    source, bank, points, model = full
    lower = lowered("fp16", model, source.calibration, points, bank, Reading("prototypes"))
    assert (lower.ready, lower.drift) == (points, {})
    halved = onnx.load_from_string(lower.model)
    types = {node.name: node.type.tensor_type.elem_type for node in halved.graph.input}
    assert (types["image"], types["proto_w"]) == (onnx.TensorProto.UINT8, onnx.TensorProto.FLOAT)


def test_mixtures_are_compared_with_in_full_precision_whatever_the_features_are():
    made = export(device(), Wanted(precision="fp16", by="mixture", ort=True))
    graph_of = onnx.load_from_string(made.files["model.onnx"])
    onnx.checker.check_model(graph_of, full_check=True)
    assert made.report["fp16"]["agreement"] >= 0.97
    names = [node.name for node in graph_of.graph.node]
    assert len(set(names)) == len(names)
    halves = {
        name
        for node in graph_of.graph.node
        if node.op_type == "Cast" and node.attribute[0].i == onnx.TensorProto.FLOAT16
        for name in node.input
    }
    # One way into half precision and one out of it: points and scores never go there.
    assert len(halves) == 1
    (last,) = [node for node in graph_of.graph.node if "score" in node.output]
    assert {"proto_w", "proto_b"} <= set(last.input)


def test_what_is_seen_and_what_it_is_compared_with_stay_in_full_precision(full):
    source, _, points, model = full
    whole = onnx.load_from_string(to_int8(model, source.calibration, points.inputs))
    quantised = {
        name
        for node in whole.graph.node
        if node.op_type == "DequantizeLinear"
        for name in node.output
    }
    (last,) = [node for node in whole.graph.node if "score" in node.output]
    assert not quantised & {"proto_w", "proto_b"}
    assert {"proto_w", "proto_b"} <= set(last.input)
    (first,) = [node for node in whole.graph.node if "image" in node.input]
    assert first.op_type != "QuantizeLinear"
