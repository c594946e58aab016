"""Chromium, headless and driven by playwright, and axe to look for what keeps people out."""

import shutil
import socket
from contextlib import contextmanager
from pathlib import Path

import pytest

from export import page as npm

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
AXE = "axe-core", "4.11.1"
PATIENCE = 60_000  # milliseconds for what a page shows: a machine may be slow
PHONE = {"width": 390, "height": 844}
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")


@contextmanager
def browser():
    """One process of Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        flags = ["--no-sandbox", "--disable-gpu"]
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=flags)
        try:
            yield chromium
        finally:
            chromium.close()


def opened(chromium, url, **how):
    """A new window at a page; what its scripts complain of is in `complaints`."""
    context = chromium.new_context(**{"viewport": {"width": 1280, "height": 860}, **how})
    context.set_default_timeout(PATIENCE)
    window = context.new_page()
    window.complaints = []
    window.on("pageerror", lambda error: window.complaints.append(str(error)))
    window.on("console", lambda m: m.type == "error" and window.complaints.append(m.text))
    window.goto(url)
    return window


@pytest.fixture(scope="session")
def axe(request):
    """The script of axe-core: fetched once and kept in pytest's cache."""
    kept = Path(request.config.cache.mkdir("npm")) / "axe.min.js"
    if not kept.exists():
        try:
            shutil.copyfile(npm.fetched(*AXE, kept.parent / ".axe") / kept.name, kept)
        except (npm.PackageMissing, OSError) as error:
            pytest.skip(f"no axe-core: {error}")
    return kept.read_text()


def barriers(window, axe):
    """What axe finds on the page as it stands, if it is serious."""
    found = evaluated(window, f"{axe}; axe.run({{resultTypes: ['violations']}})")["violations"]
    return [
        (one["id"], [(node["target"], node["failureSummary"]) for node in one["nodes"][:3]])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


def is_too_wide(window):
    """Whether it has to be pushed to and fro."""
    words = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    return evaluated(window, words)


def evaluated(window, expression):
    """What comes of it in the page, past its policy: that lets nobody else's text run."""
    words = {"expression": expression, "awaitPromise": True, "returnByValue": True}
    session = window.context.new_cdp_session(window)
    try:
        return session.send("Runtime.evaluate", words)["result"].get("value")
    finally:
        session.detach()


def free_port():
    """One that nobody listens at just now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]
