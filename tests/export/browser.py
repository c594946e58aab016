"""A page in headless Chromium, and the npm packages it needs, for tests."""

import functools
import http.server
import json
import os
import shutil
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue

import pytest

from export import page

CHROMIUM = next(
    (
        found
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (found := shutil.which(name))
    ),
    None,
)


def packages():
    """What a page needs, and the runtime in files apart, for clients that are no page."""
    apart = {f"dist/{name}": name for name in ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs")}
    runtime = "onnxruntime-web"
    version, files = page.PACKAGES[runtime]
    return page.PACKAGES | {runtime: (version, files | apart)}


@pytest.fixture(scope="module")
def node_modules(request):
    """The npm packages: those that PROTOFLEET_NODE_MODULES names, else fetched once and kept in
    pytest's cache.
    """
    if os.environ.get("PROTOFLEET_NODE_MODULES"):
        return Path(os.environ["PROTOFLEET_NODE_MODULES"])
    kept = Path(request.config.cache.mkdir("npm"))
    try:
        for name, (version, files) in packages().items():
            for source in files:
                if not (kept / name / source).exists():
                    fetched = page.fetched(name, version, kept / ".new")
                    (kept / name / source).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(fetched / source, kept / name / source)
                    if files[source].endswith(".gz"):
                        # Once, and not for each page of these tests.
                        (kept / name / f"{source}.gz").write_bytes(page.packed(fetched / source))
    except (page.PackageMissing, OSError) as error:
        pytest.skip(f"no npm packages: {error}")
    return kept


class Site(http.server.SimpleHTTPRequestHandler):
    """Gives the page out and takes its answers."""

    extensions_map = http.server.SimpleHTTPRequestHandler.extensions_map | {
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
        ".gz": "application/gzip",
    }

    def do_POST(self):
        self.server.answers.put(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *words):
        pass


@contextmanager
def served(out):
    """The folder as a site, at `url`; what a page posts comes out of the queue `answers`."""
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Site, directory=str(out))
    ) as server:
        server.answers, server.url = Queue(), f"http://127.0.0.1:{server.server_port}/"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


@contextmanager
def visited(out, address, profile, *flags):
    """Chromium at a page of the folder; what the page posts comes out of the queue."""
    with served(out) as server:
        command = [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={profile}",
        ]
        command += [
            "--remote-debugging-port=0",
            *flags,
            f"{server.url}{address}",
        ]
        browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield server.answers
        finally:
            browser.terminate()
            browser.wait(20)


def answer(answers):
    """The next thing that the page posts."""
    try:
        found = json.loads(answers.get(timeout=120))
    except Empty:
        pytest.fail("Chromium did not answer")
    assert "error" not in found, found["error"]
    return found
