"""A page: its own text, signing in, and what may be done."""

import json

import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from protofleet.errors import FleetError
from protofleet.pages.feed import Feed
from protofleet.pages.passkey import Passkey
from protofleet.pages.site import Site, application
from protofleet.pages.visitors import Policy
from tests.paging import HOST, request

KEY = Passkey("t" * 43)
OWN = {"origin": f"http://{HOST}"}


def perform(words):
    if words["n"] < 0:
        raise FleetError("no such number", "take a larger one")
    return {"n": words["n"] + 1}


@pytest.fixture
def app(tmp_path):
    (tmp_path / "index.html").write_text("<p>hello</p>")
    (tmp_path / "own.mjs").write_text("export {};")
    extra = Route("/metrics", lambda request: PlainTextResponse("m 1\n"))
    site = Site("p", tmp_path, Feed({}), {"add": perform}, (extra,), lambda: "nobody answers")
    return application(site, Policy(KEY, cookie="c"))


def signed_in(app):
    status, headers, _ = request(app, "POST", "/session", body={"token": KEY.token}, **OWN)
    assert status == 200
    return headers["set-cookie"]


def test_what_says_nothing_of_a_fleet_is_anybodys(app):
    assert request(app, "GET", "/")[2] == b"<p>hello</p>"
    status, headers, _ = request(app, "GET", "/static/own.mjs")
    assert (status, headers["cache-control"]) == (200, "no-cache")
    assert "javascript" in headers["content-type"]
    assert request(app, "GET", "/static/own.mjs", if_none_match=headers["etag"])[0] == 304
    assert request(app, "GET", "/static/base/page.mjs")[0] == 200
    assert request(app, "GET", "/static/../site.py")[0] == 404
    assert request(app, "GET", "/healthz")[0] == 200
    assert request(app, "GET", "/readyz")[:3:2] == (503, b"nobody answers\n")


def test_a_route_that_is_added_is_behind_the_same_door(app):
    assert request(app, "GET", "/metrics")[0] == 401
    assert request(app, "GET", "/metrics", authorization=f"Bearer {KEY.token}")[2] == b"m 1\n"


def test_a_token_becomes_a_cookie_that_no_script_reads(app):
    cookie = signed_in(app).lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "secure" not in cookie
    assert KEY.token not in cookie
    wrong = request(app, "POST", "/session", body={"token": "x" * 43}, **OWN)
    assert (wrong[0], "set-cookie" in wrong[1]) == (403, False)
    assert request(app, "POST", "/session", body=b"[]", **OWN)[0] == 403
    assert request(app, "POST", "/session", body={"token": KEY.token})[0] == 403


def test_who_signed_in_may_act_with_the_pages_word(app):
    cookie = signed_in(app).partition(";")[0]
    session = json.loads(request(app, "GET", "/session", cookie=cookie)[2])
    assert (session["by"], session["steers"]) == ("session", True)
    word = {"cookie": cookie, "x_csrf": session["csrf"], **OWN}
    assert json.loads(request(app, "POST", "/do/add", body={"n": 1}, **word)[2]) == {"n": 2}
    status, _, body = request(app, "POST", "/do/add", body={"n": -1}, **word)
    assert (status, json.loads(body)["hint"]) == (400, "take a larger one")
    for body in (b"{", b"[]", {}, {"n": "x"}):
        assert request(app, "POST", "/do/add", body=body, **word)[0] == 400
    assert request(app, "POST", "/do/other", body={}, **word)[0] == 404
    assert request(app, "POST", "/do/add", body={"n": 1}, cookie=cookie, **OWN)[0] == 403
    gone = request(app, "DELETE", "/session", **word)
    assert 'c=""' in gone[1]["set-cookie"]
