"""The owner's page with the longest that its device may say: nothing has to be pushed sideways."""

import json
import mimetypes
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import edge_agent.page
import protofleet.pages
from tests.browsing import axe, barriers, browser, evaluated, is_too_wide, needs_chromium

__all__ = ["axe"]

pytestmark = needs_chromium
OWN = Path(edge_agent.page.__file__).parent / "assets"
BASE = Path(protofleet.pages.__file__).parent / "assets"
LONG = "Feldhamster" * 6  # one word that fills a name
NAMES = (LONG[:64], "a name of many words that is as long as any name may be, and mor", "cat")
KEYS = [f"{n:064x}" for n in range(24)]
SESSION = {
    "page": "device", "by": "session", "name": "", "csrf": "c", "looks": True, "steers": True,
}  # fmt: skip


def documents(unknown, old):
    """What a device says of a picture that it knows or does not know, in words as long as any."""
    shares = (0.45, 0.3, 0.25)
    best = [{"name": n, "share": s} for n, s in zip(NAMES, shares, strict=True)]
    picture = {"at": 0, "source": f"/{LONG}/{LONG}.jpg", "unknown": unknown, "best": best}
    forecast = {"accuracy": 0.123, "right": 123_456, "tested": 1_000_000, "gain": 0.2345}
    verdicts = ("more", "enough", None)
    row = {"fleet": 1_000_000, "few": False}
    return {
        "device": {"name": LONG[:64]},
        "now": picture | {"at": 1, "old": old, "picture": "p"},
        "queue": {
            "classes": NAMES,
            "waiting": 1_000,
            "pictures": [picture | {"key": key} for key in KEYS],
            "last": {"label": NAMES[0], "pictures": 1_000},
        },
        "heaps": {"heaps": [{"keys": KEYS[:9]}, {"keys": KEYS[9:]}]},
        "classes": {
            "classes": [
                row | {"name": n, "own": 1_000, "verdict": v, "forecast": v and forecast}
                for n, v in zip(NAMES, verdicts, strict=True)
            ]
            + [row | {"name": "few", "own": 1, "few": True, "verdict": None, "forecast": None}],
            "words": LONG * 2,
        },
    }


def answers(says):
    """The page's own files, and these documents."""

    def answer(route):
        path = urlsplit(route.request.url).path
        name = path.rpartition("/")[2]
        if path == "/session":
            route.fulfill(body=json.dumps(SESSION), content_type="application/json")
        elif path == "/api/live":
            route.fulfill(body="data: {}\n\n", content_type="text/event-stream")
        elif path.startswith("/api/"):
            route.fulfill(body=json.dumps(says[name]), content_type="application/json")
        elif path.startswith("/picture/"):
            route.fulfill(path=BASE / "icon.svg", content_type="image/svg+xml")
        else:
            file = (BASE if "/base/" in path else OWN) / (name or "index.html")
            kind = "text/javascript" if name.endswith("mjs") else mimetypes.guess_type(file)[0]
            route.fulfill(path=file, content_type=kind)

    return answer


@pytest.fixture(scope="module")
def chromium():
    with browser() as process:
        yield process


TOO_WIDE = """[...document.querySelectorAll('body, .card')]
    .filter(place => place.scrollWidth > place.clientWidth).map(place => place.id)"""


@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("width", [320, 360, 641, 901, 1180])
def test_the_longest_names_and_every_state_fit_any_window(chromium, axe, width, unknown):
    scheme = "dark" if unknown else "light"
    page = chromium.new_page(viewport={"width": width, "height": 740}, color_scheme=scheme)
    page.route("**/*", answers(documents(unknown, old=unknown)))
    page.goto("http://page.test/")
    page.locator("#classes svg.meter").first.wait_for()
    page.locator("#now .bars").wait_for()
    assert not is_too_wide(page)
    assert evaluated(page, TOO_WIDE) == []
    assert barriers(page, axe) == []
    page.close()
