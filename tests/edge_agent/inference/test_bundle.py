"""A bundle is read whole or refused in one line."""

import io
import json
import zipfile
from hashlib import sha256

import numpy as np
import onnx
import pytest
from onnx import helper

from edge_agent.inference.bundle import open_bundle
from edge_agent.inference.classifier import Classifier
from export.writer import Wanted, export, write
from protofleet.exchange.archive import BundleError
from tests.bundles import device


@pytest.fixture(scope="module")
def made():
    return export(device(), Wanted(by="prototype"))


@pytest.fixture
def bundle(made, tmp_path):
    write(made, tmp_path / "bundle")
    return tmp_path / "bundle"


def rewrite(bundle, **changes):
    """Change the manifest, and keep the hashes right where a file was replaced."""
    document = json.loads((bundle / "manifest.json").read_text())
    for name in document["files"]:
        document["files"][name] = sha256((bundle / name).read_bytes()).hexdigest()
    document |= changes
    (bundle / "manifest.json").write_text(json.dumps(document))


def truncated(bundle):
    data = (bundle / "model.onnx").read_bytes()
    (bundle / "model.onnx").write_bytes(data[: len(data) // 2])


def unnamed(bundle):
    data = (bundle / "model.onnx").read_bytes()
    (bundle / "model.onnx").write_bytes(data.replace(b"image", b"im\xffge"))


def other_model(bundle):
    made = export(device(embedding=12), Wanted(by="prototype"))
    (bundle / "model.onnx").write_bytes(made.files["model.onnx"])


def broken_selftest(bundle):
    with np.load(bundle / "selftest.npz") as stored:
        arrays = dict(stored)
    np.savez(bundle / "selftest.npz", **(arrays | {"score": arrays["score"] * 1.1}))


def with_model(bundle, change):
    model = onnx.load(bundle / "model.onnx")
    change(model)
    (bundle / "model.onnx").write_bytes(model.SerializeToString())


def outside(bundle):
    """A weight that is a file of this machine's, relative to wherever it is loaded."""
    (bundle / "other.bin").write_bytes(bytes(1 << 20))

    def change(model):
        weight = next(w for w in model.graph.initializer if len(w.raw_data) > 64)
        weight.data_location = onnx.TensorProto.EXTERNAL
        weight.ClearField("raw_data")
        for key, value in (("location", "other.bin"), ("offset", "0")):
            entry = weight.external_data.add()
            entry.key, entry.value = key, value

    with_model(bundle, change)


def endless(bundle):
    """A loop whose condition is always true, behind the scores."""
    value, bool_ = helper.make_tensor_value_info, onnx.TensorProto.BOOL
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go_in"], ["go_out"]),
            helper.make_node("Identity", ["s_in"], ["s_out"]),
        ],
        "body",
        [
            value("i", onnx.TensorProto.INT64, []),
            value("go_in", bool_, []),
            value("s_in", onnx.TensorProto.FLOAT, ["n", "p"]),
        ],
        [value("go_out", bool_, []), value("s_out", onnx.TensorProto.FLOAT, ["n", "p"])],
    )

    def change(model):
        model.graph.initializer.append(helper.make_tensor("yes", bool_, [], [True]))
        (last,) = (node for node in model.graph.node if "score" in node.output)
        last.output[0] = "once"
        loop = helper.make_node("Loop", ["", "yes", "once"], ["score"], body=body)
        model.graph.node.append(loop)

    with_model(bundle, change)


def announced_array(bundle):
    """A self-test of one TiB in 200 bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        text = b"{'descr': '|u1', 'fortran_order': False, 'shape': (1099511627776,), }"
        head = b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text
        packed.writestr("image.npy", head)
        packed.writestr("score.npy", head)
    (bundle / "selftest.npz").write_bytes(out.getvalue())


def nothing_to_test(bundle):
    with np.load(bundle / "selftest.npz") as stored:
        arrays = dict(stored)
    np.savez(bundle / "selftest.npz", **{name: array[:0] for name, array in arrays.items()})


NEEDED = ("model.onnx", "prototypes.cbor", "selftest.npz")


DAMAGE = {
    "bad hash": (lambda b: (b / "model.onnx").write_bytes(b"x"), "model.onnx is damaged"),
    "truncated graph": (lambda b: (truncated(b), rewrite(b)), "the graph cannot be loaded"),
    "a name that is no text": (lambda b: (unnamed(b), rewrite(b)), "the graph"),
    "other embedding size": (
        lambda b: (other_model(b), rewrite(b)),
        "sizes are not the manifest's",
    ),
    "unknown schema": (
        lambda b: rewrite(b, schema="protofleet-bundle/9"),
        "schema 'protofleet-bundle/9' is not known",
    ),
    "unknown field": (lambda b: rewrite(b, colour="red"), "unknown setting 'colour'"),
    "path out of the bundle": (
        lambda b: rewrite(b, files=dict.fromkeys(NEEDED, "0") | {"../x": "0"}),
        "no file name",
    ),
    "other state": (lambda b: rewrite(b, state="0" * 64), "not the state"),
    "failing self-test": (lambda b: (broken_selftest(b), rewrite(b)), "self-test fails"),
    "missing file": (lambda b: (b / "selftest.npz").unlink(), "selftest.npz is missing"),
    "no JSON": (lambda b: (b / "manifest.json").write_bytes(b"\xff{"), "not JSON"),
    "data of another file": (
        lambda b: (outside(b), rewrite(b)),
        "outside of the file|external data",
    ),
    "an endless loop": (lambda b: (endless(b), rewrite(b)), "operator 'Loop'"),
    "of no lineage": (lambda b: rewrite(b, lineages=[]), "no lineage"),
    "its own tolerance": (lambda b: rewrite(b, tolerance=1e30), "a tolerance of 1e\\+30"),
    "a self-test of a TiB": (lambda b: (announced_array(b), rewrite(b)), r"selftest\.npz"),
    "a self-test of nothing": (lambda b: (nothing_to_test(b), rewrite(b)), "nothing to test by"),
    "drift of another size": (
        lambda b: (
            np.savez(b / "drift.npz", a=np.ones(3, np.float32)),
            rewrite(
                b, files=json.loads((b / "manifest.json").read_text())["files"] | {"drift.npz": ""}
            ),
            rewrite(b),
        ),
        "drift.npz: a row",
    ),
    "not prototypes": (
        lambda b: ((b / "prototypes.cbor").write_bytes(b"\x80"), rewrite(b)),
        "prototypes.cbor",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_wrong_is_refused_in_one_line(bundle, damage, monkeypatch, capfd):
    monkeypatch.chdir(bundle)  # a runtime would look there for what a graph names
    harm, words = DAMAGE[damage]
    harm(bundle)
    with pytest.raises(BundleError, match=words) as refusal:
        Classifier(bundle)
    assert "\n" not in str(refusal.value)
    assert capfd.readouterr().out == ""  # of a command it is the answer


def test_a_file_that_is_no_bundle(tmp_path):
    (tmp_path / "b.pfb").write_bytes(b"PK nothing")
    with pytest.raises(BundleError):
        open_bundle(tmp_path / "b.pfb")
    with pytest.raises(BundleError, match=r"manifest\.json is missing"):
        open_bundle(tmp_path)
