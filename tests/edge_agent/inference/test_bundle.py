"""A bundle is read whole or refused in one line."""

import json
from hashlib import sha256

import numpy as np
import pytest

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


def other_model(bundle):
    made = export(device(embedding=12), Wanted(by="prototype"))
    (bundle / "model.onnx").write_bytes(made.files["model.onnx"])


def broken_selftest(bundle):
    with np.load(bundle / "selftest.npz") as stored:
        arrays = dict(stored)
    np.savez(bundle / "selftest.npz", **(arrays | {"score": arrays["score"] * 1.1}))


NEEDED = ("model.onnx", "prototypes.cbor", "selftest.npz")


DAMAGE = {
    "bad hash": (lambda b: (b / "model.onnx").write_bytes(b"x"), "model.onnx is damaged"),
    "truncated graph": (lambda b: (truncated(b), rewrite(b)), "the graph cannot be loaded"),
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
    "not prototypes": (
        lambda b: ((b / "prototypes.cbor").write_bytes(b"\x80"), rewrite(b)),
        "prototypes.cbor",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_wrong_is_refused_in_one_line(bundle, damage):
    harm, words = DAMAGE[damage]
    harm(bundle)
    with pytest.raises(BundleError, match=words) as refusal:
        Classifier(bundle)
    assert "\n" not in str(refusal.value)


def test_a_file_that_is_no_bundle(tmp_path):
    (tmp_path / "b.pfb").write_bytes(b"PK nothing")
    with pytest.raises(BundleError):
        open_bundle(tmp_path / "b.pfb")
    with pytest.raises(BundleError, match=r"manifest\.json is missing"):
        open_bundle(tmp_path)
