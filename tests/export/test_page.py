"""Chromium, Node and Python agree on the class of 200 images, before and after a swap."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from edge_agent.inference.classifier import Classifier
from export import page
from export.writer import Wanted, export, manifest_bytes, write
from protofleet import wire
from protofleet.contract import Input
from protofleet.exchange import published
from tests.bundles import device, other_bank
from tests.export.browser import CHROMIUM, answer, node_modules, visited

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
    page.write({"manifest.json": manifest_bytes(made), **made.files}, out, node_modules)
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
