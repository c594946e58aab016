"""A source is read once for everybody, and a browser that has it is told so."""

import asyncio
import json
from itertools import pairwise

import pytest

from protofleet.errors import FleetError
from protofleet.pages import feed as feeding
from protofleet.pages.feed import Feed
from protofleet.pages.passkey import Passkey
from protofleet.pages.site import Site, application
from protofleet.pages.visitors import Policy
from tests.paging import request


def page(tmp_path, feed):
    return application(Site("p", tmp_path, feed), Policy(Passkey("t" * 43), free=True))


def test_a_document_is_read_at_most_so_often_and_not_sent_twice(tmp_path):
    calls, now = [], [0.0]

    def source():
        calls.append(1)
        return {"n": len(calls)}

    app = page(tmp_path, Feed({"n": source}, every=1.0, clock=lambda: now[0]))
    status, headers, body = request(app, "GET", "/api/n")
    assert (status, json.loads(body)) == (200, {"n": 1})
    assert request(app, "GET", "/api/n", if_none_match=headers["etag"])[0] == 304
    assert len(calls) == 1
    now[0] = 1.5
    assert json.loads(request(app, "GET", "/api/n")[2]) == {"n": 2}
    assert request(app, "GET", "/api/other")[0] == 404


def test_a_source_that_takes_long_is_asked_a_tenth_of_the_time(tmp_path):
    calls, now = [], [0.0]

    def source():
        calls.append(now[0])
        now[0] += 0.5  # as a list of very many devices does
        return {"n": len(calls)}

    app = page(tmp_path, Feed({"n": source}, every=1.0, clock=lambda: now[0]))
    for _ in range(200):
        request(app, "GET", "/api/n")
        now[0] += 0.1
    assert len(calls) == 5
    assert min(b - a for a, b in pairwise(calls)) == pytest.approx(5.0)


def test_a_service_that_is_not_there_is_said_to_be(tmp_path):
    def source():
        raise FleetError("nobody answers", "start it")

    status, _, body = request(page(tmp_path, Feed({"n": source})), "GET", "/api/n")
    assert (status, json.loads(body)["error"]) == (503, "nobody answers")


class Browser:
    """One that leaves after so many looks."""

    def __init__(self, looks):
        self.query_params, self.looks = {"of": "n,m"}, looks

    async def is_disconnected(self):
        self.looks -= 1
        return self.looks < 0


def test_a_stream_says_what_changed_and_ends_with_its_browser():
    numbers = iter([1, 1, 2, 2])
    feed = Feed({"n": lambda: next(numbers)}, every=0.0, clock=lambda: 0.0)

    async def follow():
        response = await feed.live(Browser(4))
        return [piece async for piece in response.body_iterator]

    events = [piece for piece in asyncio.run(follow()) if piece.startswith(b"data")]
    assert len(events) == 2
    assert events[0] != events[1]
    assert feed._followers == 0


def test_streams_are_bounded(monkeypatch):
    monkeypatch.setattr(feeding, "FOLLOWERS", 1)

    async def both():
        feed = Feed({"n": lambda: 1}, every=0.0)
        first = (await feed.live(Browser(9))).body_iterator
        await anext(first)
        refused = (await feed.live(Browser(9))).status_code
        await first.aclose()
        return refused, (await feed.live(Browser(9))).status_code

    assert asyncio.run(both()) == (503, 200)
