"""Documents that a page shows: read once for everybody, and only while somebody looks."""

# Theory of operation
#
# A source is a plain function that answers with a document, or with a `FleetError`; it may block,
# and runs in a thread. However many browsers look, and however often they ask, it is called at most
# once in `every` seconds, and at most a tenth of the time: a list of ten thousand devices takes
# whoever is asked some tenths of a second, which others need. What it said stands as bytes with a
# tag, which is their hash:
#
#   GET /api/NAME            the document; 304 where the browser has it (ETag)
#   GET /api/live?of=A,B     a stream of server-sent events: the tags of A and B, whenever one is
#                            another. The page then asks for what it shows
#
# So a stream costs a few bytes however large the documents are, and one that breaks loses nothing:
# with its first event the page knows what is new. FOLLOWERS streams at most are open.

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from protofleet.errors import FleetError

Source = Callable[[], Any]

FOLLOWERS = 32
AT_ONCE = 1  # sources that are asked at a time: many browsers are one for whoever is asked
REMEMBERED = 256  # readings
REST = 9  # times as long as an answer took, until it is asked for again
SIGN_OF_LIFE = 15.0  # seconds: proxies close what is silent


@dataclass(frozen=True)
class Served:
    """What a source said."""

    body: bytes
    tag: str
    status: int = 200


class Feed:
    """Some sources by name."""

    def __init__(
        self,
        sources: Mapping[str, Source],
        every: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sources, self._every, self._clock = dict(sources), every, clock
        self._newest: dict[str, tuple[float, Served]] = {}  # each with when it is old
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._followers = 0

    async def newest(self, name: str) -> Served:
        """What the source says now, or said a moment ago."""
        return await self.once(name, self._sources[name])

    async def once(self, name: str, source: Source) -> Served:
        """The same for a question with words in it, which `name` has to tell from all others."""
        async with self._turns:
            due, reading = self._newest.get(name, (0.0, None))
            if reading is None or self._clock() >= due:
                began = self._clock()
                reading = await run_in_threadpool(_read, source)
                now = self._clock()
                self._newest.pop(name, None)
                if len(self._newest) >= REMEMBERED:
                    del self._newest[next(iter(self._newest))]
                self._newest[name] = now + max(self._every, REST * (now - began)), reading
            return reading

    def changed(self) -> None:
        """Something was steered: what was read before is old."""
        self._newest.clear()

    async def document(self, request: Request) -> Response:
        """One document."""
        name = request.path_params["name"]
        if name not in self._sources:
            return JSONResponse({"error": f"there is no {name!r}"}, 404)
        return _answer(request, await self.newest(name))

    async def answer(self, request: Request, source: Source) -> Response:
        """A document for a question with words in it."""
        return _answer(request, await self.once(str(request.url), source))

    async def live(self, request: Request) -> Response:
        """A stream of what changes."""
        names = [n for n in request.query_params.get("of", "").split(",") if n in self._sources]
        if self._followers >= FOLLOWERS:
            return JSONResponse({"error": "too many pages are open"}, 503)
        return StreamingResponse(self._events(request, names), media_type="text/event-stream")

    async def _events(self, request: Request, names: list[str]) -> AsyncIterator[bytes]:
        self._followers += 1
        try:
            before: dict[str, str] = {}
            silent_since = self._clock()
            yield b"retry: 2000\n\n"
            while not await request.is_disconnected():
                tags = {name: (await self.newest(name)).tag for name in names}
                if tags != before:
                    before, silent_since = tags, self._clock()
                    yield b"data: " + json.dumps(tags).encode() + b"\n\n"
                elif self._clock() - silent_since >= SIGN_OF_LIFE:
                    silent_since = self._clock()
                    yield b":\n\n"
                await asyncio.sleep(self._every)
        finally:
            self._followers -= 1


def _answer(request: Request, reading: Served) -> Response:
    headers = {"etag": f'"{reading.tag}"'}
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    return Response(reading.body, reading.status, headers, "application/json")


def _read(source: Source) -> Served:
    try:
        document, status = source(), 200
    except FleetError as error:
        document, status = {"error": error.words, "hint": error.hint, "code": error.code}, 503
    body = json.dumps(document, separators=(",", ":")).encode()
    return Served(body, sha256(body).hexdigest()[:20], status)
