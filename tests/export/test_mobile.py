"""`.ort` for reduced builds: it runs, names its operators, and says nothing of this machine."""

import numpy as np
import onnx
import pytest

from export.forms import fixed
from export.mobile import in_one_order, to_ort
from export.verify import patterns, session
from export.writer import Wanted, export
from tests.bundles import device


@pytest.fixture(scope="module")
def bundle():
    return export(device(), Wanted(by="prototype", also=("baked",)))


def test_the_converted_graph_gives_the_same_scores(bundle):
    model = bundle.files["baked.onnx"]
    x = patterns(device().contract.input)
    due, converted = (
        session(data).run(["score"], {"image": x})[0]
        for data in (model, to_ort(model)["model.ort"])
    )
    assert np.allclose(due, converted, rtol=1e-5, atol=1e-5)


def test_operators_are_all_that_the_graph_is_made_of(bundle):
    model = bundle.files["baked.onnx"]
    lines = to_ort(model)["operators.config"].decode().splitlines()
    own = {
        name
        for line in lines
        for name in line.rpartition(";")[2].split(",")
        if line.startswith("ai.onnx;")
    }
    used = {node.op_type for node in onnx.load_from_string(model).graph.node}
    assert own == used
    assert {line.partition(";")[0] for line in lines} == {"ai.onnx"}


def test_the_same_graph_has_the_same_bytes_and_phones_are_asked_about_fixed_sizes(bundle):
    model = bundle.files["baked.onnx"]
    first, again = to_ort(model), to_ort(model, fixed(model, 10))
    assert first["model.ort"] == again["model.ort"] == in_one_order(first["model.ort"])
    assert b"/model.onnx" in first["mobile.txt"]
    assert b"/fixed.onnx" in again["mobile.txt"]


def test_nothing_in_it_is_a_folder_of_this_machine_and_standard_output_stays_clean(bundle, capfd):
    files = to_ort(bundle.files["baked.onnx"])
    assert capfd.readouterr() == ("", "")
    assert set(files) == {"model.ort", "operators.config", "mobile.txt"}
    for name in ("operators.config", "mobile.txt"):
        assert b"/tmp" not in files[name], name
