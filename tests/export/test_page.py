"""Chromium, Node and Python agree on the class of 200 images, before and after a swap."""

import functools
import http.server
import json
import os
import shutil
import subprocess
import threading
from pathlib import Path
from queue import Empty, Queue

import numpy as np
import pytest

from edge_agent.inference import Classifier
from export import page
from export.writer import Wanted, export, manifest_bytes, write
from protofleet import channel, wire
from protofleet.contract import Input
from tests.bundles import device, other_bank

HERE = Path(__file__).parent / "web"
N = 200
CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)


@pytest.fixture(scope="module")
def node_modules(request):
    """The npm packages: those that PROTOFLEET_NODE_MODULES names, else fetched once and kept in pytest's cache."""
    if os.environ.get("PROTOFLEET_NODE_MODULES"):
        return Path(os.environ["PROTOFLEET_NODE_MODULES"])
    kept = Path(request.config.cache.mkdir("npm"))
    try:
        for name, (version, files) in page.PACKAGES.items():
            for source in files:
                if not (kept / name / source).exists():
                    fetched = page.fetched(name, version, kept / ".new")
                    (kept / name / source).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(fetched / source, kept / name / source)
    except (page.PackageMissing, OSError) as error:
        pytest.skip(f"no npm packages: {error}")
    return kept


@pytest.fixture(scope="module", params=["prototype", "cosine", "mixture", "head"])
def case(request, tmp_path_factory, node_modules):
    """A page with a bundle, samples, other prototypes, and what Python says of both."""
    source = device("cnn-mnist", kind=Input("image", (28, 28, 1), (0.2,), (0.3,)), embedding=20)
    made = export(source, Wanted(by=request.param))
    out = tmp_path_factory.mktemp(request.param) / "page"
    page.write({"manifest.json": manifest_bytes(made), **made.files}, out, node_modules)
    classifier = Classifier(write(made, out.parent / "b"))
    x = np.random.default_rng(1).integers(0, 256, (N, 28, 28, 1), dtype=np.uint8)
    x[:80] = source.check.x
    before = classifier.look(x)
    bank = classifier.loaded.bank
    if request.param in ("prototype", "cosine"):
        bank = other_bank(bank)
    message = channel.write(bank, wire.Envelope("global", "f", "r", round=9))
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


class Site(http.server.SimpleHTTPRequestHandler):
    """Gives the page out and takes its answers."""

    extensions_map = http.server.SimpleHTTPRequestHandler.extensions_map | {
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
    }

    def do_POST(self):
        self.server.answers.put(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *words):
        pass


@pytest.mark.parametrize("case", ["prototype"], indirect=True)
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_chromium_agrees(case, tmp_path):
    out, before, after = case
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Site, directory=str(out))) as server:
        server.answers = Queue()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/test.html?n={N}"
        command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}", address]
        browser = subprocess.Popen(
            [*command, "--remote-debugging-port=0"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            found = json.loads(server.answers.get(timeout=120))
        except Empty:
            pytest.fail("Chromium did not answer")
        finally:
            browser.terminate()
            browser.wait(20)
            server.shutdown()
    assert "error" not in found
    same(found["before"], before)
    same(found["after"], after)


@pytest.mark.parametrize("case", ["prototype"], indirect=True)
def test_nothing_on_the_page_comes_from_elsewhere(case):
    out = case[0]
    for name in page.OWN:
        text = (out / name).read_text()
        assert "https://" not in text
        assert "http://" not in text
