"""The operator's page asks by the socket, and steers by what a browser may say."""

import json
from queue import SimpleQueue

import pytest

from coordinator.service.control import Control
from coordinator.web.console import coarse, line, momentary, site, standing
from protofleet.pages.passkey import Passkey
from protofleet.pages.site import application
from protofleet.pages.visitors import Policy
from tests.paging import request

KEY = Passkey("t" * 43)
TOKEN = {"authorization": f"Bearer {KEY.token}"}
ROW = {
    "agent": "a",
    "online": True,
    "left": False,
    "gone": False,
    "seen_seconds_ago": 3.0,
    "round": None,
    "accuracy": {},
    "declines": "",
}
ANSWERS = {
    "status": {"connected": True},
    "agents": {"agents": [ROW]},
    "members": {"members": [{"name": "a", "joined": 1.0, "ends": 2.0, "revoked": None}]},
    "events": {"events": [{"id": 1}]},
}


@pytest.fixture
def page(tmp_path):
    """The application, and what was asked of the service in turn."""
    questions = []

    def look(asked):
        questions.append((asked.command, asked.arguments))
        if asked.command == "forget" and asked.arguments["agent"] == "nobody":
            return {"error": "there is no device 'nobody'", "code": "usage"}
        return ANSWERS.get(asked.command, {"done": True})

    control = Control(tmp_path, SimpleQueue(), lambda: None, look)
    try:
        yield application(site(tmp_path), Policy(KEY, free=True)), questions
    finally:
        control.close()


def test_every_view_asks_and_nothing_else_is_done(page):
    app, questions = page
    assert json.loads(request(app, "GET", "/api/status")[2]) == ANSWERS["status"]
    (row,) = json.loads(request(app, "GET", "/api/fleet")[2])["devices"]
    assert (row["agent"], row["standing"], row["seen"]) == ("a", "there", 0)
    device = json.loads(request(app, "GET", "/api/device/a")[2])
    assert (device["member"]["ends"], device["events"]) == (2.0, [{"id": 1}])
    assert request(app, "GET", "/api/device/b")[0] == 503
    request(app, "GET", "/api/events", query="kind=alert&agent=a&before=7")
    assert questions[-1] == ("events", {"kind": "alert", "agent": "a", "before": 7, "last": 100})
    request(app, "GET", "/api/events", query="before=x")
    assert questions[-1] == ("events", {"last": 100})
    assert request(app, "GET", "/readyz")[0] == 200


@pytest.mark.parametrize(
    ("name", "words", "question"),
    [
        ("pause", {}, ("pause", {})),
        ("admit", {"name": "owl"}, ("classes", {"what": "admit", "name": "owl"})),
        (
            "rename",
            {"name": "owl", "to": "elk", "what": "freeze", "file": "/etc/passwd"},
            ("classes", {"what": "rename", "name": "owl", "to": "elk"}),
        ),
        ("back", {"version": 3}, ("classes", {"what": "back", "version": 3})),
        ("forget", {"agent": "a"}, ("forget", {"agent": "a"})),
        ("revoke", {"agent": "a"}, ("revoke", {"agent": "a"})),
        ("rollout-halt", {}, ("rollout", {"what": "halt", "by": "the page"})),
    ],
)
def test_an_action_says_what_it_takes_and_no_more(page, name, words, question):
    app, questions = page
    assert request(app, "POST", f"/do/{name}", body=words, **TOKEN)[0] == 200
    assert questions[-1] == question


def test_what_cannot_be_done_is_said(page):
    app, questions = page
    for words in ({}, {"version": "3"}, {"version": True}):
        assert request(app, "POST", "/do/back", body=words, **TOKEN)[0] == 400
    assert questions == []
    status, _, body = request(app, "POST", "/do/forget", body={"agent": "nobody"}, **TOKEN)
    assert (status, json.loads(body)["error"]) == (400, "there is no device 'nobody'")
    assert request(app, "POST", "/do/stop", body={}, **TOKEN)[0] == 404


def test_a_page_whose_service_is_gone_says_so(tmp_path):
    app = application(site(tmp_path), Policy(KEY, free=True))
    status, _, body = request(app, "GET", "/api/status")
    assert (status, json.loads(body)["code"]) == (503, "not-running")
    assert request(app, "GET", "/readyz")[0] == 503
    assert request(app, "GET", "/healthz")[0] == 200


def test_a_line_says_what_is_odd():
    drift = {"changed": True, "sentence": "moved"}
    odd = line({**ROW, "drift": drift, "suspects": ["x"], "refused": "old", "doubted": True})
    assert odd["troubles"] == ["old", "x", "moved", "not heard: most others contradict it"]
    assert line(ROW)["troubles"] == []
    assert standing({**ROW, "gone": True}) == "silent"
    assert standing({**ROW, "left": True, "gone": True}) == "left"
    assert standing({**ROW, "online": False}) == "away"


def test_what_anybody_may_ask_is_asked_of_the_service_once_a_moment():
    calls = []
    answer = momentary(lambda: calls.append(1) or len(calls), 60.0)
    assert [answer(), answer()] == [1, 1]
    assert [momentary(lambda: calls.append(1) or len(calls), 0.0)() for _ in range(2)] == [2, 3]


def test_times_of_silence_come_in_steps():
    assert [coarse(s) for s in (3.0, 17.0, 100.0, 3000.0, 90_000.0)] == [0, 10, 100, 3000, 90_000]
