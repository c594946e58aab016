"""Chromium, Node and Python agree on the class of 200 images, before and after a swap, and on what
a photo looks like at a network's size.
"""

import json
import shutil
import subprocess
from base64 import b64decode, b64encode
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from edge_agent.inference.classifier import Classifier
from export import page
from export.trial import Trial
from export.writer import Wanted, contents_of, export, write
from protofleet import wire
from protofleet.contract import Input
from protofleet.exchange import published
from protofleet.exchange.published import About, Bank
from protofleet.values.prototypes import Head, Prototypes
from tests.bundles import device, other_bank
from tests.export.browser import CHROMIUM, answer, node_modules, visited
from tests.networks import extractor_bundle, pictures

__all__ = ["node_modules"]

HERE = Path(__file__).parent / "web"
N = 200


@pytest.fixture(scope="module", params=["prototype", "cosine", "mixture", "head", "int8"])
def case(request, tmp_path_factory, node_modules):
    """A page with a bundle, samples, other prototypes, and what Python says of both."""
    source = device("cnn-mnist", kind=Input("image", (28, 28, 1), (0.2,), (0.3,)), embedding=20)
    quantised = request.param == "int8"
    made = export(
        source,
        Wanted("int8", smallest=True, by="prototype") if quantised else Wanted(by=request.param),
    )
    out = tmp_path_factory.mktemp(request.param) / "page"
    page.write(contents_of(made), out, node_modules)
    classifier = Classifier(write(made, out.parent / "b"))
    x = np.random.default_rng(1).integers(0, 256, (N, 28, 28, 1), dtype=np.uint8)
    x[:80] = source.check.x
    before = classifier.look(x)
    bank = classifier.loaded.bank
    if request.param in ("prototype", "cosine", "int8"):
        bank = other_bank(bank)
    message = published.write(bank, wire.Envelope("global", "f", "r", round=9))
    classifier.swap(message)
    (out / "samples.bin").write_bytes(x.tobytes())
    (out / "swap.cbor").write_bytes(message)
    shutil.copyfile(HERE / "page.html", out / "test.html")
    return out, before, classifier.look(x)


def same(found, due):
    assert found["labels"] == due.best
    assert found["state"] == due.state
    apart = np.abs(np.array(found["scores"]) - due.scores).max() / np.abs(due.scores).max()
    assert apart <= 1e-5


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_node_agrees(case):
    out, before, after = case
    command = ["node", str(HERE / "client.mjs"), str(out / "ort.wasm.min.mjs"), str(out / "bundle")]
    command += [str(out / "samples.bin"), str(N), str(out / "swap.cbor")]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    found = json.loads(run.stdout)
    same(found["before"], before)
    same(found["after"], after)
    assert found["refused"]


@pytest.mark.parametrize("case", ["prototype", "int8"], indirect=True)
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_chromium_agrees(case, tmp_path):
    out, before, after = case
    with visited(out, f"test.html?n={N}", tmp_path) as answers:
        found = answer(answers)
    same(found["before"], before)
    same(found["after"], after)


@pytest.mark.parametrize("case", ["prototype"], indirect=True)
def test_nothing_on_the_page_comes_from_elsewhere(case):
    out = case[0]
    for name in page.OWN:
        text = (out / name).read_text()
        assert "https://" not in text
        assert "http://" not in text


def photo(rng, width, height):
    """Shapes, edges and noise, in colours."""
    at = np.linspace(0, 9, width)[None, :, None] + np.linspace(0, 7, height)[:, None, None]
    waves = 127 + 90 * np.sin(at * rng.uniform(1, 9, 3)) + rng.normal(0, 30, (height, width, 3))
    waves[height // 3 :, width // 2 :] = rng.integers(0, 2, 3) * 255
    return Image.fromarray(np.clip(waves, 0, 255).astype(np.uint8))


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_photos_are_made_smaller_as_on_a_device(tmp_path):
    rng, lines, due = np.random.default_rng(3), [], []
    for (width, height), shape in [
        ((640, 480), (224, 224, 3)),
        ((1001, 333), (64, 96, 3)),
        ((333, 1001), (28, 28, 1)),
        ((333, 1001), (28, 28, 3)),
        ((480, 640), (224, 224, 1)),
        ((1001, 333), (28, 28, 1)),
        ((333, 333), (28, 28, 1)),
        ((60, 90), (224, 160, 3)),  # larger, too
        ((224, 224), (224, 224, 3)),
        ((224, 500), (224, 224, 1)),
        ((7, 5), (1, 1, 3)),
    ]:
        picture = photo(rng, width, height)
        mode = "L" if shape[2] == 1 else "RGB"
        smaller = picture.convert(mode).resize(shape[1::-1], Image.Resampling.BILINEAR)
        due.append(np.asarray(smaller).reshape(shape))
        rgba = b64encode(picture.convert("RGBA").tobytes()).decode()
        lines.append(json.dumps({"width": width, "height": height, "shape": shape, "rgba": rgba}))
    (tmp_path / "pictures").write_text("\n".join(lines))
    command = ["node", str(HERE / "resize.mjs"), str(tmp_path / "pictures")]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    for line, expected in zip(run.stdout.split(), due, strict=True):
        pixels = np.frombuffer(b64decode(line), np.uint8).reshape(expected.shape)
        # Pillow 13 takes the columns of tall pictures first: a grey level here and there.
        apart = np.abs(pixels.astype(int) - expected)
        assert apart.max() <= 1
        assert (apart > 0).mean() < 0.1


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
@pytest.mark.parametrize(("precision", "kind"), [("fp32", "prototypes"), ("int8", "head")])
def test_an_extractor_gets_its_first_classes_while_it_runs(node_modules, tmp_path, precision, kind):
    x = np.concatenate([pictures(seed, N // 4) for seed in range(4)])
    photos = Trial(x, np.full(N, -1))
    bundle = extractor_bundle(tmp_path / "b", precision, photos)
    made = {path.name: path.read_bytes() for path in (tmp_path / "b").iterdir()}
    page.write(made, tmp_path / "page", node_modules)
    classifier = Classifier(bundle)
    means = classifier.embed(x).reshape(4, N // 4, -1).mean(1)
    points = Prototypes(np.arange(4), means)
    if kind == "head":
        points = Head(np.arange(4), 2 * means, -(means**2).sum(1))
    bank = Bank(About(bundle.manifest.lineages[0], tuple("abcd")), points)
    message = published.write(bank, wire.Envelope("global", "f", "r", round=9))
    (tmp_path / "samples.bin").write_bytes(x.tobytes())
    (tmp_path / "swap.cbor").write_bytes(message)
    command = ["node", str(HERE / "client.mjs"), str(tmp_path / "page" / "ort.wasm.min.mjs")]
    command += [str(tmp_path / "page" / "bundle"), str(tmp_path / "samples.bin"), str(N)]
    command += [str(tmp_path / "swap.cbor")]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    found = json.loads(run.stdout)
    assert found["before"]["labels"] == [None] * N
    assert found["before"]["scores"] == [[]] * N
    classifier.swap(message)
    same(found["after"], classifier.look(x))
    assert len(set(found["after"]["labels"])) == 4
