"""What goes into a bundle: which form ships, files held to each other, a manifest over all."""

from dataclasses import replace
from hashlib import sha256
from io import BytesIO

import numpy as np
import pytest

from export import contents
from export.contents import Form, Wanted, assembled, chosen_form, npz, plain_json
from export.extractor import extractor
from export.feeding import HALF, SourceTerms
from export.forms import ExportError
from export.verify import FeatureCheck
from export.writer import export_extractor
from protofleet.exchange.archive import MODEL, PROTOTYPES, SELFTEST
from tests.networks import foreign


def form(precision, milliseconds):
    return Form(b"", precision, None, FeatureCheck(1, 0.0, 1.0, 10, milliseconds))


@pytest.mark.parametrize(
    ("lower", "smallest", "ships"),
    [
        (None, False, "fp32"),
        (form("fp16", 9.0), False, "fp16"),
        (form("int8", 0.5), False, "int8"),
        (form("int8", 9.0), False, "fp32"),
        (form("int8", 9.0), True, "int8"),
    ],
)
def test_int8_ships_where_it_is_faster_or_asked_for(lower, smallest, ships):
    chosen, report = chosen_form(form("fp32", 1.0), lower, Wanted(smallest=smallest))
    assert chosen.precision == ships
    assert ("kept" in report) == (lower is not None and lower.precision != ships)
    assert report["fp32"]["cosine"] == 1.0


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    path = tmp_path_factory.mktemp("file") / "net.onnx"
    foreign(path)
    return export_extractor(extractor(SourceTerms(str(path), scale=HALF)), Wanted(), "orchard")


def test_the_manifest_is_over_every_file(exported):
    manifest = exported.manifest
    assert dict(manifest.files) == {n: sha256(d).hexdigest() for n, d in exported.files.items()}
    assert {MODEL, PROTOTYPES, SELFTEST, "report.json"} == set(exported.files)
    assert {"protofleet", "onnxruntime", "numpy"} <= set(manifest.versions)


def test_packages_that_are_not_there_are_left_out(monkeypatch):
    monkeypatch.setattr(contents, "INVOLVED", ("numpy", "no-such-package"))
    assert list(contents._versions()) == ["numpy"]


def test_the_self_test_holds_features_too(exported):
    with np.load(BytesIO(exported.files[SELFTEST])) as vectors:
        assert vectors["feature"].shape == (16, exported.manifest.embedding)
        assert vectors["score"].shape == (16, 0)


def test_a_graph_that_changed_on_its_way_is_not_written(exported, monkeypatch):
    draft = exported.manifest
    shipped = form("fp32", 1.0)
    points = replace(shipped, model=exported.files[MODEL])
    answers = iter([(np.ones((2, 1)), np.ones((2, 3))), (np.ones((2, 1)), np.zeros((2, 3)))])
    monkeypatch.setattr(contents, "_files", lambda *how: {MODEL: b""})
    monkeypatch.setattr(contents.verify, "scores", lambda *how: next(answers))
    with_points = replace(points, points=type("Points", (), {"inputs": {}})())
    with pytest.raises(ExportError, match=r"model\.onnx differs from the verified graph"):
        assembled(draft, b"", (with_points, {}), Wanted())


@pytest.mark.parametrize(("precision", "apart"), [("fp32", 3e-5), ("fp16", 3e-3)])
def test_the_other_forms_may_differ_by_what_their_precision_rounds(precision, apart, monkeypatch):
    due = np.ones((2, 1))
    live = type("Live", (), {"run": lambda self, *how: [due * (1 + self.off)]})()
    monkeypatch.setattr(contents.verify, "session", lambda model: live)
    shipped = replace(form(precision, 1.0), points=type("Points", (), {"inputs": {}})())
    live.off = apart
    contents._same_answers({"model.ort": b""}, shipped, due, due)
    live.off = 10 * apart
    with pytest.raises(ExportError, match=r"model\.ort differs from the verified graph"):
        contents._same_answers({"model.ort": b""}, shipped, due, due)


def test_arrays_alone_decide_the_bytes_of_a_file():
    arrays = {"a": np.arange(6).reshape(2, 3), "b": np.zeros(0)}
    assert npz(arrays) == npz({name: array.copy() for name, array in arrays.items()})
    with np.load(BytesIO(npz(arrays))) as stored:
        assert np.array_equal(stored["a"], arrays["a"])
    assert plain_json({"ä": 1}) == '{\n "ä": 1\n}'.encode()
