"""What the page answers, and what may be done on it: with the token, and with nothing else."""

import json

import pytest

from edge_agent.page.owner import owner_site
from edge_agent.recent.queue import RecentBounds, RecentQueue
from protofleet.pages.passkey import Passkey
from protofleet.pages.site import application
from protofleet.pages.visitors import Policy
from tests.edge_agent.page.owned import bundle_of, see, teach
from tests.paging import request

TOKEN = "t" * 40
BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def page(tmp_path):
    bundle = bundle_of(tmp_path)
    teach(bundle)
    see(bundle, (1, 1), (9, 5))
    site = owner_site("door", bundle, tmp_path / "photos", RecentBounds())
    return application(site, Policy(Passkey(TOKEN), free=True))


def read(page, name):
    status, _, body = request(page, "GET", f"/api/{name}")
    assert status == 200, body
    return json.loads(body)


def do(page, name, words, **headers):
    status, _, body = request(page, "POST", f"/do/{name}", body=words, **{**BEARER, **headers})
    return status, json.loads(body)


def test_a_tap_names_throws_away_and_is_taken_back(page, tmp_path):
    queue = read(page, "queue")
    keys = [row["key"] for row in queue["pictures"]]
    assert (read(page, "device"), len(keys)) == ({"name": "door"}, 5)
    assert do(page, "label", {"keys": keys[:3], "label": "NINE"}) == (
        200,
        {"pictures": 3, "label": "NINE"},
    )
    assert do(page, "label", {"keys": keys[3:4], "label": "nine"})[1]["label"] == "NINE"
    assert do(page, "throw", {"keys": keys[4:]}) == (200, {"pictures": 1})
    assert read(page, "queue")["pictures"] == []
    assert len(list((tmp_path / "photos" / "NINE").glob("*.jpg"))) == 4
    assert "NINE" in read(page, "queue")["classes"]
    for label, count in (("", 1), ("NINE", 1), ("NINE", 3)):
        assert do(page, "undo", {}) == (200, {"label": label, "pictures": count})
    assert do(page, "undo", {})[0] == 400
    assert not (tmp_path / "photos" / "NINE").exists()
    assert len(read(page, "queue")["pictures"]) == 5


def test_pictures_are_shown_to_who_may_look_and_nothing_else_is(page, tmp_path):
    key = read(page, "queue")["pictures"][0]["key"]
    status, headers, body = request(page, "GET", f"/picture/{key}")
    assert (status, headers["content-type"]) == (200, "image/jpeg")
    assert body == RecentQueue(tmp_path / "fleet.pfb").picture(key).read_bytes()
    assert headers["cache-control"] == "no-store"
    assert request(page, "GET", "/picture/now")[0] == 200
    for other in ("0" * 64, "..%2fqueue.db", "queue.db", "page.token"):
        assert request(page, "GET", f"/picture/{other}")[0] == 404


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"keys": "x", "label": "a"},
        {"keys": [], "label": "a"},
        {"keys": [1], "label": "a"},
        {"keys": ["x"] * 501, "label": "a"},
        {"keys": ["x"], "label": ["a"]},
        {"keys": ["x"], "label": "../up"},
        [],
    ],
)
def test_words_that_are_wrong_are_refused_and_change_nothing(page, tmp_path, words):
    status, answer = do(page, "label", words)
    assert (status, list(answer)[:1]) == (400, ["error"])
    assert not (tmp_path / "photos").exists()


def test_nobody_without_the_token_names_anything(page, tmp_path):
    key = read(page, "queue")["pictures"][0]["key"]
    words = {"keys": [key], "label": "nine"}
    assert request(page, "POST", "/do/label", body=words)[0] == 403
    wrong = {"authorization": "Bearer nothing"}
    assert request(page, "POST", "/do/label", body=words, **wrong)[0] == 403
    assert not (tmp_path / "photos").exists()


def test_its_own_page_is_there_with_all_that_it_asks_for(page):
    status, _, body = request(page, "GET", "/")
    assert status == 200
    for part in ("/static/owner.mjs", "/static/owner.css", "/static/base/page.mjs"):
        assert request(page, "GET", part)[0] == 200
    assert b"http://" not in body
    assert request(page, "GET", "/readyz")[2] == b"ready\n"
