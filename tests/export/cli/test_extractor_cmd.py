"""`protofleet extractor`: a source, how it is fed, and a bundle in which no class is known."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from PIL import Image

from edge_agent.inference.bundle import ANTIALIASED, open_bundle
from edge_agent.inference.classifier import Classifier
from export import page
from export.cli.extractor_cmd import extractor
from protofleet.errors import FleetError, UsageError
from tests.networks import FILTERS, SIDE, foreign

ROOT = Path(__file__).parents[3]


def called(*words):
    outcome = CliRunner().invoke(extractor, [str(word) for word in words], standalone_mode=False)
    if outcome.exception is not None:
        raise outcome.exception
    return outcome.output


@pytest.fixture
def file(tmp_path):
    foreign(tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    rng = np.random.default_rng(2)
    for i in range(6):
        picture = rng.integers(0, 256, (40, 30, 3), dtype=np.uint8)
        Image.fromarray(picture).save(folder / f"{i}.png")
    return folder


def test_the_bundle_says_what_it_is_and_how_it_is_fed(file, tmp_path):
    text = called(file, "--scale", "imagenet", "--fleet", "orchard", "--out", tmp_path / "x.pfb")
    bundle = open_bundle(tmp_path / "x.pfb")
    manifest = bundle.manifest
    assert (manifest.method, manifest.backbone, manifest.fleet) == ("extractor", "net", "orchard")
    assert (manifest.classes, manifest.embedding) == ((), FILTERS)
    assert manifest.input.shape == (SIDE, SIDE, 3)
    assert manifest.input.mean == (0.485, 0.456, 0.406)
    assert manifest.resize == ANTIALIASED
    assert manifest.lineages[0] == bundle.published.bank.about.lineage
    first, *_, none, lineage = text.splitlines()
    assert first.startswith(f"{tmp_path / 'x.pfb'}: net, 16×16 RGB, scale imagenet, 8 numbers, fp")
    assert none == "no class yet"
    assert lineage == f"lineage {manifest.lineages[0]}"
    assert Classifier(bundle).loaded.labels == []


def test_the_forms_share_a_lineage(file, photos, tmp_path):
    lineages = set()
    for precision in ("fp32", "fp16", "int8"):
        words = ("--precision", precision, "--smallest", "--data", photos)
        text = called(file, "--scale", "half", "--out", tmp_path / precision, *words, "--json")
        document = json.loads(text)
        bundle = open_bundle(tmp_path / precision)
        assert bundle.manifest.precision == precision
        assert document["digest"] == bundle.digest
        assert document["report"][precision]["cosine"] > 0.99
        onnx.checker.check_model(bundle.model, full_check=True)
        lineages |= {document["lineage"], *bundle.manifest.lineages}
    assert len(lineages) == 1


def test_int8_wants_photos(file, tmp_path):
    with pytest.raises(UsageError, match="int8 is calibrated with photos; --data"):
        called(file, "--scale", "half", "--precision", "int8", "--out", tmp_path / "x")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="not one image"):
        called(file, "--scale", "half", "--data", tmp_path / "empty", "--out", tmp_path / "x")


def test_the_reduced_form_comes_on_request(file, tmp_path):
    called(file, "--scale", "half", "--format", "onnx,ort", "--out", tmp_path / "x")
    assert (tmp_path / "x" / "model.ort").exists()


def test_nothing_is_written_when_something_is_missing(file, tmp_path):
    with pytest.raises(FleetError, match="--scale"):
        called(file, "--out", tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_module_is_looked_for_where_one_stands(tmp_path, monkeypatch):
    (tmp_path / "owns.py").write_text(
        "from torch import nn\ndef net(): return nn.Conv2d(3, 8, 3, stride=2)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    text = called("owns:net", "--size", "16x12", "--scale", "0..1", "--out", tmp_path / "x")
    assert text.startswith(f"{tmp_path / 'x'}: owns.net, 16×12 RGB, scale 0..1, 8 numbers")


def test_a_file_needs_no_torch(file, tmp_path):
    code = (
        "import sys\nfor name in ('torch', 'torchvision', 'sklearn'): sys.modules[name] = None\n"
        "from export.cli.extractor_cmd import extractor\n"
        f"extractor(['{file}', '--scale', 'half', '--out', '{tmp_path / 'x.pfb'}'])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert open_bundle(tmp_path / "x.pfb").manifest.classes == ()


def test_a_page_that_waits_for_its_classes_can_be_written_too(file, tmp_path):
    modules = tmp_path / "node_modules"
    for package, (_, files) in page.PACKAGES.items():
        for name in files:
            (modules / package / name).parent.mkdir(parents=True, exist_ok=True)
            (modules / package / name).write_text("")
    words = ("--web", tmp_path / "page", "--node-modules", modules)
    called(file, "--scale", "half", "--out", tmp_path / "x", *words)
    written = (tmp_path / "page" / "bundle" / "model.onnx").read_bytes()
    assert written == open_bundle(tmp_path / "x").model
