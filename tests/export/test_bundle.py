"""What is written, and what is refused."""

import json
import shutil
import zipfile
from hashlib import sha256

import numpy as np
import pytest

from edge_agent.inference.bundle import open_bundle
from edge_agent.inference.classifier import Classifier, Mismatch
from export.writer import Wanted, export, write
from protofleet import wire
from protofleet.errors import UsageError
from protofleet.exchange import published
from protofleet.exchange.archive import BundleError
from protofleet.exchange.published import About, Bank
from protofleet.values.prototypes import Prototypes
from tests.bundles import device


@pytest.fixture(scope="module")
def made():
    return export(device(), Wanted(by="prototype"))


@pytest.fixture
def bundle(made, tmp_path):
    write(made, tmp_path / "bundle")
    return tmp_path / "bundle"


def test_a_folder_and_a_file_are_the_same_bundle(made, tmp_path):
    folder, packed = write(made, tmp_path / "b"), write(made, tmp_path / "b.pfb")
    assert folder.digest == packed.digest
    assert folder.files == packed.files
    assert zipfile.is_zipfile(tmp_path / "b.pfb")


def test_its_prototypes_are_a_message_of_the_fleet(made):
    message = wire.decode(made.files["prototypes.cbor"])
    assert message.envelope.t == "global"
    assert message.digest == made.manifest.state


def test_nobodys_pictures_are_in_it(made):
    source = device()
    with np.load(__import__("io").BytesIO(made.files["selftest.npz"])) as vectors:
        assert len(vectors["image"]) >= 16
        flat = {each.tobytes() for each in source.check.x} | {
            each.tobytes() for each in source.calibration.x
        }
        assert not any(each.tobytes() in flat for each in vectors["image"])


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


def message_of(bank):
    return published.write(bank, wire.Envelope("global", "f", "r", round=9), "float32")


def test_prototypes_that_do_not_fit_are_refused_and_the_running_ones_stay(bundle):
    classifier = Classifier(bundle)
    before = classifier.loaded
    about, points = before.bank.about, before.bank.points
    narrow = Prototypes(points.classes, points.vectors[:, :5])
    for wrong, words in (
        (message_of(Bank(About("run:f/other", about.classes), points)), "of run:f/other"),
        (
            message_of(Bank(About("run:f/other", about.classes, "ab" * 32), points)),
            "fetch the bundle abababab",
        ),
        (message_of(Bank(about, narrow)), "5 numbers each"),
        (message_of(Bank(about, Prototypes([], np.zeros((0, points.dim))))), "not one class"),
        (b"\xa0", "no prototypes"),
        (bundle.joinpath("prototypes.cbor").read_bytes()[:-1], "no prototypes"),
    ):
        with pytest.raises(Mismatch, match=words):
            classifier.swap(wrong)
        assert classifier.loaded is before


def test_a_frozen_extractor_has_a_lineage_of_its_own():
    run = device().lineages()
    frozen = device(freeze=True).lineages()
    assert [each.partition(":")[0] for each in run] == ["run"]
    assert [each.partition(":")[0] for each in frozen] == ["extractor", "run"]
    assert device().lineages(freeze=True)[1:] == run


def test_another_folder_is_not_overwritten(made, tmp_path):
    (tmp_path / "precious.txt").write_text("x")
    with pytest.raises(UsageError, match="holds no bundle"):
        write(made, tmp_path)
    write(made, tmp_path / "b")
    write(made, tmp_path / "b")
    shutil.rmtree(tmp_path / "b")
