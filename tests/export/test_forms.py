"""The forms of a graph: clean, short of names, and the same thing in each."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edge_agent.inference.bundle import Reading
from edge_agent.inference.inputs import ready
from export import graph
from export.forms import ExportError, baked, cleaned, finished, fixed, in_order, inner_graphs, valid
from export.mobile import to_ort
from export.quantise import lowered
from export.verify import session
from protofleet.contract import Input
from protofleet.exchange.published import About, Bank
from protofleet.toolbox import heads
from tests.bundles import device


def model():
    """Images times points, with notes of somebody's machine; a branch inside reads a weight."""
    branch = [
        helper.make_graph(
            [helper.make_node("Identity", ["weight"], [f"{side}.out"])],
            side,
            [],
            [helper.make_tensor_value_info(f"{side}.out", TensorProto.FLOAT, [2])],
        )
        for side in ("then", "else")
    ]
    nodes = [
        helper.make_node("Cast", ["image"], ["pixels"], "a", "/home/me/net.py", to=1),
        helper.make_node(
            "If", ["yes"], ["either"], "b", then_branch=branch[0], else_branch=branch[1]
        ),
        helper.make_node("Add", ["pixels", "either"], ["feature"], "c"),
        helper.make_node("Gemm", ["feature", "proto_w", "proto_b"], ["score"], "d"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("image", TensorProto.UINT8, ["n", 2]),
            helper.make_tensor_value_info("proto_w", TensorProto.FLOAT, [2, "p"]),
            helper.make_tensor_value_info("proto_b", TensorProto.FLOAT, ["p"]),
        ],
        [
            helper.make_tensor_value_info("score", TensorProto.FLOAT, ["n", "p"]),
            helper.make_tensor_value_info("feature", TensorProto.FLOAT, ["n", 2]),
        ],
        [
            numpy_helper.from_array(np.array([1, 2], np.float32), "weight"),
            numpy_helper.from_array(np.array(True), "yes"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


IMAGE = np.array([[3, 4]], np.uint8)
POINTS = {"proto_w": np.eye(2, dtype=np.float32), "proto_b": np.zeros(2, np.float32)}


def score(data, **more):
    return session(data).run(["score"], {"image": IMAGE, **more})[0].tolist()


def test_nothing_of_the_machine_stays():
    assert b"/home/me" not in cleaned(model()).SerializeToString()


def test_a_graph_that_is_finished_says_the_same_and_carries_its_notes():
    data = finished(model().SerializeToString(), {"protofleet.state": "abc"})
    assert score(data, **POINTS) == [[4, 6]]
    notes = {entry.key: entry.value for entry in onnx.load_from_string(data).metadata_props}
    assert notes == {"protofleet.state": "abc"}


def test_names_are_short_where_no_inner_graph_reads_them():
    plain = model()
    del plain.graph.node[1]
    plain.graph.node[1].input[1] = "weight"
    data = finished(plain.SerializeToString(), {})
    assert score(data, **POINTS) == [[4, 6]]
    assert {w.name for w in onnx.load_from_string(data).graph.initializer} == {"w6", "w7"}


def test_points_can_be_inside_and_sizes_fixed():
    assert score(baked(model().SerializeToString(), POINTS)) == [[4, 6]]
    data = fixed(model().SerializeToString(), 2)
    sizes = [node.shape for node in session(data).get_inputs()]
    assert sizes == [[1, 2], [2, 2], [2]]


def test_graphs_inside_nodes_are_met():
    assert [graph.name for graph in inner_graphs(model().graph)] == ["g", "else", "then"]


def test_nodes_are_put_behind_those_they_read_from():
    mixed = model()
    nodes = list(mixed.graph.node)[::-1]
    del mixed.graph.node[:]
    mixed.graph.node.extend(nodes)
    ordered = in_order(mixed)
    onnx.checker.check_model(ordered, full_check=True)
    assert sorted(node.name for node in ordered.graph.node) == ["a", "b", "c", "d"]
    assert score(ordered.SerializeToString(), **POINTS) == [[4, 6]]


NETWORKS = {
    "cnn4": (28, 28, 1),
    "lenet": (32, 32, 3),
    "resnet8": (32, 32, 3),
    "mobilenet_v3_small": (64, 64, 3),
    "shufflenet_v2_x0_5": (64, 64, 3),
}


@pytest.mark.parametrize(
    ("network", "by"),
    [
        ("cnn4", "prototypes"),
        ("lenet", "head"),
        ("resnet8", "prototypes"),
        ("resnet8", "head"),
        ("mobilenet_v3_small", "head"),
        ("shufflenet_v2_x0_5", "prototypes"),
    ],
)
def test_every_form_is_valid_onnx_and_reduced_builds_need_the_standards_operators_alone(
    network, by
):
    shape = NETWORKS[network]
    source = device(network, kind=Input("image", shape, (0.5,) * shape[2], (0.5,) * shape[2]))
    bank = Bank(About("run:f/r", source.contract.classes), source.scorers["prototype"].prototypes)
    if by == "head":
        bank = Bank(bank.about, heads.rows(source.weights))
    reading = Reading(by)
    points = ready(bank, reading)
    module = graph.classifying(source.net, source.contract.input, reading)
    full = graph.to_onnx(module, source.contract.input, points.inputs)
    for precision in ("fp32", "fp16", "int8"):
        model, inputs = full, points.inputs
        if precision != "fp32":
            lower = lowered(precision, full, source.calibration, points, bank, reading)
            model, inputs = lower.model, lower.ready.inputs
        forms = {
            "model.onnx": model,
            "baked.onnx": baked(model, inputs),
            "fixed.onnx": fixed(model, len(points.rows)),
        }
        forms = {name: valid(finished(data, {}), name) for name, data in forms.items()}
        operators = to_ort(forms["model.onnx"], forms["fixed.onnx"])["operators.config"].decode()
        assert {line.partition(";")[0] for line in operators.split()} == {"ai.onnx"}


def test_what_is_no_valid_onnx_is_refused():
    mixed = model()
    nodes = list(mixed.graph.node)[::-1]
    del mixed.graph.node[:]
    mixed.graph.node.extend(nodes)
    with pytest.raises(ExportError, match=r"a\.onnx is no valid ONNX: .*topologically sorted"):
        valid(mixed.SerializeToString(), "a.onnx")
    wrong = model()
    wrong.graph.output[1].type.tensor_type.shape.dim[1].dim_value = 3
    with pytest.raises(ExportError, match=r"no valid ONNX: .*\[ShapeInferenceError\]"):
        valid(wrong.SerializeToString(), "b.onnx")
    assert valid(model().SerializeToString(), "c.onnx") == model().SerializeToString()
