"""Files that others wrote: what they take and give is read off them, and what is not in them is
asked for.
"""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from export import onnx_source
from export.feeding import fed, scale_of
from export.forms import ExportError
from export.onnx_source import OPSETS, composed, entrance, feature_of, of_file, scaled, standard
from export.verify import patterns, scores
from protofleet.contract import Input
from protofleet.errors import FleetError
from tests.networks import CHANNELS, FILTERS, SIDE, by_hand, foreign

SHAPE = (SIDE, SIDE, CHANNELS)
FEEDING = fed("it", SHAPE, scale_of("imagenet"))
NOTHING = {"proto_w": np.zeros((FILTERS, 0), np.float32), "proto_b": np.zeros(0, np.float32)}
POINTS = {
    "proto_w": np.ones((FILTERS, 2), np.float32),
    "proto_b": np.arange(2, dtype=np.float32),
}
X = patterns(FEEDING, 7)


def network(path, output="", layout="", size=None, **how):
    foreign(path, **how)
    return of_file(path, output, layout, size)


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"end": "map"},
        {"shape": (1, CHANNELS, SIDE, SIDE)},
        {"shape": (1, CHANNELS, SIDE, SIDE), "reshaped": True},
        {"shape": (1, SIDE, SIDE, CHANNELS), "reshaped": True},
        {"shape": ("n", SIDE, SIDE, CHANNELS)},
        {"dtype": TensorProto.FLOAT16},
        {"version": 9},
        {"version": 13},
        {"version": 13, "end": "map"},
    ],
    ids=str,
)
def test_the_graph_gives_what_the_network_means(tmp_path, how):
    source = network(tmp_path / "net.onnx", **how)
    model = composed(source, FEEDING)
    score, feature = scores(model, X, POINTS)
    due = by_hand(X, np.array(FEEDING.mean), np.array(FEEDING.std))
    tolerance = 2e-3 if "dtype" in how else 1e-5
    assert np.allclose(feature, due, atol=tolerance)
    assert np.allclose(score, feature.sum(1, keepdims=True) + POINTS["proto_b"], atol=1e-4)
    assert scores(model, X, NOTHING)[0].shape == (len(X), 0)
    assert np.allclose(source.embed(scaled(X, source.entrance, FEEDING)), due, atol=tolerance)


def test_what_is_composed_is_a_bundles_graph(tmp_path):
    model = onnx.load_from_string(composed(network(tmp_path / "net.onnx"), FEEDING))
    onnx.checker.check_model(model, full_check=True)
    assert [node.name for node in model.graph.input] == ["image", "proto_w", "proto_b"]
    assert [node.name for node in model.graph.output] == ["score", "feature"]
    image = model.graph.input[0].type.tensor_type
    assert image.elem_type == TensorProto.UINT8
    assert [d.dim_value for d in image.shape.dim][1:] == list(SHAPE)
    assert model.opset_import[0].version in OPSETS


def test_a_network_of_bytes_is_fed_bytes(tmp_path):
    source = network(tmp_path / "net.onnx", dtype=TensorProto.UINT8)
    assert source.entrance.scales_itself
    kind = Input("image", SHAPE)
    feature = scores(composed(source, kind), X, NOTHING)[1]
    assert np.allclose(feature, by_hand(X) * 255, rtol=1e-4)


def test_features_may_be_brought_to_a_better_size(tmp_path):
    source = network(tmp_path / "net.onnx")
    plain, quarter = (scores(composed(source, FEEDING, f), X, NOTHING)[1] for f in (1.0, 0.25))
    assert np.array_equal(quarter, plain / 4)


def test_nothing_behind_the_feature_ships(tmp_path):
    source = network(tmp_path / "net.onnx", output="pool", end="softmax")
    model = onnx.load_from_string(composed(source, FEEDING))
    assert "Softmax" not in {node.op_type for node in model.graph.node}
    assert not {"own/fc", "own/fc_bias"} & {w.name for w in model.graph.initializer}


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"end": "fc"}, "linear layer, as classifiers do; --output pool .* --output fc_out for"),
        ({"end": "softmax"}, "ends in a softmax"),
        ({"end": "softmax", "version": 11}, "ends in a softmax"),
        ({"end": ("pool", "map")}, "2 outputs; --output, one of pool, map"),
        ({"output": "pooll"}, "nothing that is called 'pooll'; did you mean pool"),
        ({"output": "conv_out", "end": "pool", "shape": ("n", 2, SIDE, SIDE)}, "2 channels"),
        ({"shape": ("n", "c", "h", "w")}, "images of any size; --size"),
        ({"size": (32, 32)}, "16×16 only"),
        ({"dtype": TensorProto.INT8}, "INT8"),
    ],
)
def test_what_is_not_plain_is_asked_for_in_one_line(tmp_path, how, words):
    with pytest.raises(FleetError, match=words) as caught:
        network(tmp_path / "net.onnx", **how)
    assert "\n" not in str(caught.value)


def test_where_the_channels_are_is_seen_by_the_first_convolution(tmp_path):
    source = network(tmp_path / "net.onnx", shape=("n", "c", "h", "w"), size=(20, 24))
    assert source.entrance.layout == "NCHW"
    assert source.entrance.shape == (20, 24, CHANNELS)


def test_where_they_are_not_seen_the_caller_says(tmp_path):
    model = foreign(shape=("n", "c", "h", "w"))
    (conv,) = [node for node in model.graph.node if node.op_type == "Conv"]
    model.graph.node.insert(0, helper.make_node("Relu", ["image"], ["first"]))
    conv.input[0] = "first"
    with pytest.raises(FleetError, match="where its channels are"):
        entrance(model, "", (SIDE, SIDE), "net.onnx")
    assert entrance(model, "NCHW", (SIDE, SIDE), "net.onnx").layout == "NCHW"


def test_a_batch_that_stays_fixed_inside_is_refused(tmp_path):
    model = foreign(shape=(1, CHANNELS, SIDE, SIDE))
    one = numpy_helper.from_array(np.ones((1, FILTERS, SIDE, SIDE), np.float32), "one")
    model.graph.initializer.append(one)
    pool = next(node for node in model.graph.node if node.op_type == "GlobalAveragePool")
    pool.input[0] = "joined"
    joined = helper.make_node("Concat", ["map", "one"], ["joined"], axis=1)
    model.graph.node.insert(2, joined)
    model.graph.initializer[1].CopyFrom(
        numpy_helper.from_array(np.zeros((2 * FILTERS, 5), np.float32), "fc")
    )
    onnx.save(model, tmp_path / "net.onnx")
    source = of_file(tmp_path / "net.onnx", "", "", None)
    with pytest.raises(ExportError, match="does not take three images at once"):
        composed(source, FEEDING)


def test_files_that_are_none_are_named(tmp_path):
    with pytest.raises(FleetError, match=r"nowhere\.onnx: No such file"):
        of_file(tmp_path / "nowhere.onnx", "", "", None)
    for junk in (b"", b"\x08\x01junk" * 9):
        (tmp_path / "junk.onnx").write_bytes(junk)
        with pytest.raises(FleetError, match=r"junk\.onnx: not a"):
            of_file(tmp_path / "junk.onnx", "", "", None)


def test_operators_of_one_vendor_are_refused():
    model = foreign(nodes=[helper.make_node("Gelu", ["image"], ["x"], domain="com.microsoft")])
    with pytest.raises(FleetError, match=r"operators of com\.microsoft"):
        standard(model, "net.onnx")


def test_one_image_as_input_is_due():
    model = foreign()
    model.graph.input.append(helper.make_tensor_value_info("mask", TensorProto.FLOAT, [1]))
    with pytest.raises(FleetError, match=r"2 inputs \(image, mask\)"):
        entrance(model, "", None, "net.onnx")
    sound = helper.make_tensor_value_info("sound", TensorProto.FLOAT, [1, 16000])
    del model.graph.input[:]
    model.graph.input.append(sound)
    with pytest.raises(FleetError, match="2 sizes"):
        entrance(model, "", None, "net.onnx")


def test_a_sum_of_two_branches_is_no_bias():
    model = foreign()
    model.graph.node.append(helper.make_node("Add", ["fc_out", "softmax"], ["sum"]))
    del model.graph.output[:]
    model.graph.output.append(onnx.ValueInfoProto(name="sum"))
    assert feature_of(model, "", "net.onnx") == "sum"


def test_weights_that_are_written_as_nodes_become_weights():
    model = foreign()
    stored = next(w for w in model.graph.initializer if w.name == "fc")
    model.graph.node.insert(0, helper.make_node("Constant", [], ["fc"], value=stored))
    model.graph.initializer.remove(stored)
    plain = standard(model, "net.onnx")
    assert "fc" in {w.name for w in plain.graph.initializer}
    assert "Constant" not in {node.op_type for node in plain.graph.node}


def test_a_feature_of_three_sizes_is_refused(tmp_path):
    model = foreign()
    model.graph.initializer.append(numpy_helper.from_array(np.array([0, 2, -1]), "three"))
    model.graph.node.append(helper.make_node("Reshape", ["pool", "three"], ["tokens"]))
    onnx.save(model, tmp_path / "net.onnx")
    source = of_file(tmp_path / "net.onnx", "tokens", "", None)
    with pytest.raises(FleetError, match="tokens has 3 sizes"):
        composed(source, FEEDING)


def test_errors_of_others_are_short():
    assert onnx_source.short(ValueError("a\n b" * 200)).count("\n") == 0
    assert onnx_source.short(KeyError()) == "KeyError"
