"""A graph is let in if it is made of the standard's operators and of its own bytes, else not."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from onnx import AttributeProto, SparseTensorProto, TensorProto, helper, numpy_helper

from protofleet.exchange import graph
from protofleet.exchange.archive import BundleError

FLOATS = numpy_helper.from_array(np.ones((3, 4), np.float32), "w")


def outside(name="w"):
    """A tensor whose data lie in another file."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[3, 4])
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "../../etc/passwd"
    return tensor


def half_outside():
    tensor = outside()
    tensor.data_location = TensorProto.DEFAULT
    return tensor


def sized(*dims, data=b""):
    return TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims, raw_data=data)


def sparse(values, *dims):
    indices = numpy_helper.from_array(np.arange(12, dtype=np.int64), "i")
    return SparseTensorProto(values=values, indices=indices, dims=dims)


def model(*nodes, weights=(FLOATS,), sparse=(), **more):
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])
    made = helper.make_graph(list(nodes), "g", [value], [value], list(weights), **more)
    made.sparse_initializer.extend(sparse)
    return helper.make_model(made)


def constant(tensor):
    return helper.make_node("Constant", [], ["c"], value=tensor)


def branch(*nodes):
    return helper.make_graph(list(nodes), "b", [], [])


def looping():
    return helper.make_node("Loop", ["m", "c"], ["y"], body=branch())


def of_function():
    made = model()
    made.functions.add().name = "f"
    return made


def twice():
    data = model().SerializeToString()
    return data + data


def unknown(data):
    return data + b"\xa2\x3f\x01x"


def test_what_the_standard_allows_is_let_in():
    typed = helper.make_tensor("t", TensorProto.INT64, [3], [-1, 0, 2**40])
    loose = TensorProto(name="l", data_type=TensorProto.FLOAT16, dims=[2], int32_data=[1, 2])
    inner = helper.make_node(
        "If", ["c"], ["z"], then_branch=branch(constant(FLOATS)), else_branch=branch()
    )
    nodes = helper.make_node("MatMul", ["x", "w"], ["y"]), constant(FLOATS), inner
    weights = FLOATS, typed, loose, sized(0, 4), sized(data=b"1234")
    made = model(*nodes, weights=weights, sparse=[sparse(FLOATS, 100)])
    graph.check(made.SerializeToString())


REFUSED = {
    "weights elsewhere": (model(weights=[outside()]), "outside of the file|external data"),
    "weights elsewhere, named here": (model(weights=[half_outside()]), "external data"),
    "attributes elsewhere": (model(constant(outside())), "outside|external data"),
    "a branch's elsewhere": (
        model(helper.make_node("If", ["c"], ["y"], then_branch=branch(constant(outside())))),
        "outside|external data",
    ),
    "sparse values elsewhere": (model(sparse=[sparse(outside(), 100)]), "outside|external data"),
    "functions": (of_function(), "functions"),
    "a loop": (model(looping()), "operator 'Loop'"),
    "an operator of elsewhere": (model(helper.make_node("Relu", [], [], domain="x")), "of x"),
    "chance": (model(helper.make_node("RandomNormal", [], [])), "RandomNormal"),
    "a graph in what takes none": (
        model(helper.make_node("Relu", ["x"], ["y"], body=branch(looping()))),
        "operator 'Loop'|a graph inside 'Relu'",
    ),
    "more than it holds": (model(weights=[sized(1 << 20)]), "without data|elements that holds"),
    "a terabyte": (model(weights=[sized(1 << 38)]), "elements"),
    "a product": (model(weights=[sized(1 << 28, 1 << 28, data=b"1234")]), "elements"),
    "sizes without number": (model(weights=[sized(*[1] * 1000, data=b"1234")]), "16 sizes"),
    "less than nothing": (model(weights=[sized(-1)]), "elements"),
    "sparse and huge": (model(sparse=[sparse(FLOATS, 1 << 29, 2)]), "elements"),
    "text": (model(constant(helper.make_tensor("t", TensorProto.STRING, [1], [b"x"]))), "string"),
    "a type in an attribute": (
        model(helper.make_node("Relu", ["x"], ["y"], a=helper.make_tensor_type_proto(1, [1]))),
        "tp",
    ),
    "nothing": (b"", "there is none"),
    "the same twice": (twice(), "twice"),
    "a field of tomorrow": (unknown(model().SerializeToString()), "no field"),
    "a group": (b"\x3b\x3c", "another type"),
    "more than there is": (b"\x3a\x09\x0a", "longer than"),
    "a name that is no text": (model().SerializeToString().replace(b"g", b"\xff"), "no text"),
    "nested": (None, "deep"),
}


def nested(n):
    node = constant(FLOATS)
    for _ in range(n):
        node = helper.make_node("If", ["c"], ["y"], then_branch=branch(node))
    return model(node)


@pytest.mark.parametrize("what", REFUSED)
def test_what_it_must_not_have_is_refused_in_one_line(what):
    bad, words = REFUSED[what]
    bad = nested(30) if what == "nested" else bad
    data = bad if isinstance(bad, bytes) else bad.SerializeToString()
    with pytest.raises(BundleError, match=words) as refusal:
        graph.check(data)
    assert "\n" not in str(refusal.value)


def test_its_size_is_bounded(monkeypatch):
    monkeypatch.setattr(graph, "NODES", 10)
    many = model(*[helper.make_node("Relu", ["x"], ["x"])] * 11).SerializeToString()
    with pytest.raises(BundleError, match="10 nodes"):
        graph.check(many)
    monkeypatch.setattr(graph, "FIELDS", 10)
    with pytest.raises(BundleError, match="10 fields"):
        graph.check(many)


def test_every_attribute_of_the_standard_has_its_place():
    names = {f.name: f.number for f in AttributeProto.DESCRIPTOR.fields}
    assert {name for _, (name, _) in graph._FIELDS["Attribute"].items()} == set(names)
    assert {name for _, (name, _) in graph._FIELDS["Tensor"].items()} == {
        f.name for f in TensorProto.DESCRIPTOR.fields
    }


@example(b"\xff" * 12)
@example(b"\x3a\xff\xff\xff\xff\x0f")
@given(st.binary(max_size=80))
def test_any_bytes_at_all_are_let_in_or_refused(data):
    for bytes_of in (data, model().SerializeToString()[:40] + data):
        with suppress(BundleError):
            graph.check(bytes_of)
