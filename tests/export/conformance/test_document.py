"""Clients in four languages are folders to one folder of what is due, and what is wrong is seen."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from export.conformance.comparison import differences
from export.conformance.document import answered, folder, read
from export.writer import Wanted, export, write
from protofleet.contract import Input
from protofleet.errors import DataError
from tests.bundles import device, digits
from tests.compiling import conformance_cpp
from tests.export.browser import CHROMIUM, answer, node_modules, visited
from tests.networks import extractor_bundle

__all__ = ["conformance_cpp", "node_modules"]

HERE = Path(__file__).parents[1] / "web"
WEB = Path(__file__).parents[3] / "export" / "web"
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder each: colour photos and an extractor that knows no class; grey ones in half
    precision by Gaussians, by cosine and by a network's own head; series.
    """
    root = tmp_path_factory.mktemp("folders")
    raw = ("raw",)
    bundles = {"extractor": extractor_bundle(root / "b-extractor")}
    for name, precision, by in [
        ("mixture", "fp16", "mixture"),
        ("cosine", "fp32", "cosine"),
        ("head", "fp32", "head"),
        ("plain", "fp32", "prototype"),
    ]:
        made = export(device(), Wanted(precision=precision, by=by, also=raw))
        bundles[name] = write(made, root / f"b-{name}")
    series = device("mlp", kind=Input("series", (20, 3)))
    bundles["series"] = write(export(series, Wanted(by="prototype", also=raw)), root / "b-series")
    rng = np.random.default_rng(5)
    photos = [large(x[..., 0], rng) for x in digits().x[:12]]
    for name, bundle in bundles.items():
        for file, data in folder(bundle, () if name == "extractor" else photos).items():
            (root / name / file).parent.mkdir(parents=True, exist_ok=True)
            (root / name / file).write_bytes(data)
    return {name: root / name for name in bundles}


def large(digit, rng):
    """A digit as a photo of it: larger, in grey noise."""
    size = tuple(rng.integers(40, 110, 2).tolist())
    grey = np.asarray(Image.fromarray(digit).resize(size, Image.Resampling.BICUBIC), np.float64)
    noisy = np.clip(grey + rng.normal(0, 25, grey.shape), 0, 255)
    return np.repeat(noisy.astype(np.uint8)[..., None], 3, 2)


def test_python_agrees_and_everything_is_asked(folders):
    seen = {"label": set(), "unknown": set(), "probabilities": set()}
    for where in folders.values():
        expected = read(where)
        assert len(expected["inputs"]) >= 8
        assert sum(path.stat().st_size for path in where.rglob("*") if path.is_file()) < 4 << 20
        assert differences(answered(where), expected) == []
        for state in expected["states"]:
            for one in state["answers"]:
                seen["label"].add(one["label"])
                seen["unknown"].add(one["unknown"])
                seen["probabilities"].add(one["probabilities"] is None)
    assert seen["unknown"] == {None, True, False}
    assert seen["probabilities"] == {True, False}
    assert len(seen["label"]) > 10


def test_plain_bilinear_is_caught_in_python(folders):
    def shown(path, kind):
        import torch

        with Image.open(path) as photo:
            pixels = torch.from_numpy(np.array(photo.convert("RGB"))).permute(2, 0, 1)[None].float()
        small = torch.nn.functional.interpolate(pixels, kind.shape[:2], mode="bilinear")
        return small[0].permute(1, 2, 0).round().byte().numpy()

    assert differences(answered(folders["extractor"], shown), read(folders["extractor"]))


def by_node(where, node_modules, client=WEB):
    runtime = node_modules / "onnxruntime-web" / "dist" / "ort.wasm.min.mjs"
    command = ["node", HERE / "conformance.mjs", runtime, client / "protofleet.mjs", where]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return json.loads(run.stdout)


@needs_node
def test_node_agrees(folders, node_modules):
    for where in folders.values():
        assert differences(by_node(where, node_modules), read(where)) == []


@needs_node
def test_plain_bilinear_is_caught_in_javascript(folders, node_modules, tmp_path):
    shutil.copytree(WEB, tmp_path / "web")
    resize = tmp_path / "web" / "resize.mjs"
    text = resize.read_text()
    assert text.count("Math.max(scale, 1)") == 1
    resize.write_text(text.replace("Math.max(scale, 1)", "1"))
    for name in ("extractor", "plain"):
        told = differences(
            by_node(folders[name], node_modules, tmp_path / "web"), read(folders[name])
        )
        assert any("scores differ" in line for line in told)


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_chromium_agrees(folders, node_modules, tmp_path):
    shutil.copytree(WEB, tmp_path / "page")
    for file in ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"):
        shutil.copyfile(node_modules / "onnxruntime-web" / "dist" / file, tmp_path / "page" / file)
    for file in ("conformance.html", "conformance.mjs"):
        shutil.copyfile(HERE / file, tmp_path / "page" / file)
    for name in ("extractor", "plain"):
        shutil.rmtree(tmp_path / "page" / "held", ignore_errors=True)
        shutil.copytree(folders[name], tmp_path / "page" / "held")
        with visited(tmp_path / "page", "conformance.html", tmp_path / name) as answers:
            assert differences(answer(answers), read(folders[name])) == []


def test_cpp_agrees(folders, conformance_cpp):
    for where in folders.values():
        run = subprocess.run(
            [conformance_cpp, where], capture_output=True, text=True, check=True, timeout=120
        )
        assert differences(json.loads(run.stdout), read(where)) == []


def test_what_is_no_folder_is_refused(tmp_path):
    with pytest.raises(DataError, match="is no conformance folder"):
        read(tmp_path)
