"""Chromium, headless and driven by playwright, and axe to look for what keeps people out."""

import json
import shutil
import socket
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

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


# Whatever button comes to a page, and whatever is pressed there, by its words or by its kind.
BUTTONS = """{
const kinds = KINDS, told = new Set();
function tell(what, button) {
  const kind = kinds.find(([selector]) => button.closest(selector));
  const words = kind ? kind[1] : button.textContent.split(/[:,0-9]/)[0].trim();
  if (!words || told.has(what + words)) return;
  told.add(what + words);
  window.noted(what, words);
}
addEventListener("click", ({ target }) => {
  const button = target.closest("button");
  if (button) tell("pressed", button);
}, true);
const look = () => document.querySelectorAll("button").forEach((button) => tell("seen", button));
new MutationObserver(look).observe(document, { childList: true, subtree: true });
}"""


class Driven:
    """What a page can do, and what of it was done: buttons that were `seen` and `pressed`, by their
    words up to a name or a number, or by kind where all of them are one (`kinds`: a selector and
    what it is); `done`, requests that change anything and were answered well (method and path).
    """

    def __init__(self, **kinds):
        self.kinds = [(selector, kind) for kind, selector in kinds.items()]
        self.seen, self.pressed, self.done = set(), set(), set()

    def follow(self, context):
        """All windows of this context."""
        context.expose_function("noted", lambda what, words: getattr(self, what).add(words))
        context.add_init_script(BUTTONS.replace("KINDS", json.dumps(self.kinds)))
        context.on("response", self._answered)

    def _answered(self, response):
        method = response.request.method
        if method != "GET" and response.ok:
            self.done.add((method, urlsplit(response.url).path))


def changing(site):
    """Every request that changes anything on a page."""
    actions = {("POST", f"/do/{name}") for name in site.actions}
    return actions | {("POST", "/session"), ("DELETE", "/session")}


def opened(chromium, url, driven=None, patience=PATIENCE, **how):
    """A new window at a page; what its scripts complain of is in `complaints`."""
    context = chromium.new_context(**{"viewport": {"width": 1280, "height": 860}, **how})
    context.set_default_timeout(patience)
    if driven is not None:
        driven.follow(context)
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
