"""What stands before every page: bounds on what comes, who may ask, the headers of what goes."""

# Theory of operation
#
# One ASGI middleware, from the cheapest question to the dearest:
#
#   rate      BURST requests of one address at once, and RATE a second after them; 429
#   host, who, steering                            `visitors`; 401, 403, 421
#   body      BODY bytes within PATIENCE seconds, read before anything is done; 413, 408
#
# How many connections there are at a time is the server's (`server`), how many of them may follow
# a stream is the feed's (`feed`).
#
# The policy of content: no script but ours and none in the text, no style in the text, nothing from
# elsewhere, in nobody's frame. What is said of a fleet is stored by no browser.

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, replace
from http.cookies import CookieError, SimpleCookie
from typing import Any

from protofleet.pages.visitors import SAFE, Denial, Inquiry, Policy, verdict, visitor

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

BODY = 65_536
PATIENCE = 10.0
RATE, BURST = 50.0, 300.0
ADDRESSES = 1024  # whose rate is kept; one more begins with a full burst
STATIC = "/static/"
CONTENT = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": CONTENT,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


@dataclass(frozen=True)
class Spending:
    """What an address may still ask for, as of when."""

    rest: float
    at: float

    def after(self, now: float) -> Spending:
        """One request later; `rest` below 0 was one too many."""
        rest = min(BURST, self.rest + (now - self.at) * RATE)
        return Spending(rest - 1 if rest >= 1 else -1.0, now)


class Guard:
    """An application behind it."""

    def __init__(
        self,
        app: App,
        policy: Policy,
        opened: Iterable[str] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._app, self._policy, self._opened = app, policy, frozenset(opened)
        self._clock = clock
        self._spending: dict[str, Spending] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return  # no page of ours speaks WebSocket: the server closes it
        inquiry, now = _inquiry(scope), self._clock()
        send = _with_headers(send, inquiry.path)
        if not self._may_ask(inquiry.peer, now):
            await _refuse(send, Denial(429, "too many requests: one moment"))
            return
        who = visitor(self._policy, inquiry, now)
        is_open = inquiry.path in self._opened or inquiry.path.startswith(STATIC)
        refusal = verdict(self._policy, inquiry, who, is_open)
        if refusal is None and inquiry.method not in SAFE:
            body = await _whole(receive, scope)
            if isinstance(body, Denial):
                refusal = body
            else:
                receive = _again(body, receive)
        if refusal is not None:
            await _refuse(send, refusal)
            return
        scope["state"] = {**scope.get("state", {}), "visitor": who}
        await self._app(scope, receive, send)

    def _may_ask(self, peer: str, now: float) -> bool:
        before = self._spending.pop(peer, Spending(BURST, now))
        after = before.after(now)
        if len(self._spending) >= ADDRESSES:
            del self._spending[next(iter(self._spending))]  # who was silent for longest
        self._spending[peer] = replace(after, rest=max(after.rest, 0.0))
        return after.rest >= 0


def _inquiry(scope: Scope) -> Inquiry:
    headers: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    jar: SimpleCookie = SimpleCookie()
    for text in headers.get("cookie", ()):
        try:
            jar.load(text)
        except CookieError:
            continue
    cookies = {name: morsel.value for name, morsel in jar.items()}
    client = scope.get("client")
    return Inquiry(scope["method"], scope["path"], client[0] if client else "", headers, cookies)


async def _whole(receive: Receive, scope: Scope) -> bytes | Denial:
    """The body, if it is a short one and comes soon."""
    body: bytes = b""
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return Denial(400, "the request ended early")
                body += message.get("body", b"")
                if len(body) > BODY:
                    return Denial(413, f"more than {BODY} bytes")
                if not message.get("more_body"):
                    return body
    except TimeoutError:
        return Denial(408, "the request did not end")


def _again(body: bytes, receive: Receive) -> Receive:
    """The body once more, and then what the server says."""
    pending = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> MutableMapping[str, Any]:
        return pending.pop() if pending else await receive()

    return replayed


def _with_headers(send: Send, path: str) -> Send:
    # What was loaded before is asked for by its ETag; what is said of a fleet is not kept at all.
    kept_for = "no-cache" if path.startswith(STATIC) else "no-store"

    async def headed(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            fixed = {**HEADERS, "cache-control": kept_for}
            others = [(n, v) for n, v in message.get("headers", ()) if n.decode() not in fixed]
            added = [(name.encode(), value.encode()) for name, value in fixed.items()]
            message = {**message, "headers": [*others, *added]}
        await send(message)

    return headed


async def _refuse(send: Send, refusal: Denial) -> None:
    body = json.dumps({"error": refusal.words}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if refusal.status == 429:
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
