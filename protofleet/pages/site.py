"""A page as an application: its own assets and routes on the ground that all pages share."""

# How to make a page, or add to one
#
# A `Site` says what is particular: a folder with `index.html` and what belongs to it, documents by
# name (`feed`: a plain function each, which may block), and what may be done (`actions`: a plain
# function each, of the JSON object that the browser posts, which answers with another or raises a
# `FleetError`). `routes` takes any other Starlette route, `/metrics` for example. The rest is here:
#
#   /                  index.html of `assets`           open: it says nothing of a fleet
#   /static/base/...   style.css, icon.svg, *.mjs       open; shared, with ETags
#   /static/...        the page's own `assets`          open
#   /healthz           the process answers              open
#   /readyz            what it serves is there          open; 503 and why, where it is not
#   /session           GET who I am; POST {token}; DELETE    open; from the page itself
#   /api/live?of=A,B   what changed, by server-sent events    to whom may look
#   /api/NAME          a document                       to whom may look
#   /do/NAME           POST an action                   to whom may steer (`visitors`)
#   your routes        GET to whom may look, everything else to whom may steer
#
#     site = Site("device", Path(__file__).parent / "assets", Feed({"queue": read_queue}),
#                 actions={"confirm": confirm}, routes=(Route("/metrics", metrics),),
#                 ready=lambda: "")
#     serve(application(site, policy_of(section, data_dir)), parse(section.listen), say=print)
#
# In the browser `/static/base/page.mjs` does the other half: signing in, `watch` (documents that
# stay new), `act` (an action, with its CSRF word), `h` (elements), charts. A page's process must
# not load what it serves: it asks a service for documents, and may die at any time.

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from protofleet.errors import FleetError
from protofleet.pages.feed import Feed
from protofleet.pages.guard import App, Guard
from protofleet.pages.passkey import SECONDS
from protofleet.pages.visitors import Policy, Visitor

BASE = Path(__file__).parent / "assets"
OPEN = ("/", "/session", "/healthz", "/readyz")

Action = Callable[[dict[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True)
class Site:
    """What is particular of a page."""

    name: str
    assets: Path
    feed: Feed
    actions: Mapping[str, Action] = field(default_factory=dict)
    routes: Sequence[BaseRoute] = ()
    ready: Callable[[], str] = lambda: ""  # why not; empty: it is


def application(site: Site, policy: Policy) -> App:
    """The page behind its guard."""

    async def index(request: Request) -> Response:
        return FileResponse(site.assets / "index.html")

    async def healthy(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def ready(request: Request) -> Response:
        reason = await run_in_threadpool(site.ready)
        return PlainTextResponse(f"{reason or 'ready'}\n", 503 if reason else 200)

    async def session(request: Request) -> Response:
        return await _session(request, site, policy)

    async def act(request: Request) -> Response:
        return await _act(request, site)

    routes: list[BaseRoute] = [
        *site.routes,  # first: one that takes words may stand beside the documents
        Route("/", index),
        Route("/healthz", healthy),
        Route("/readyz", ready),
        Route("/session", session, methods=["GET", "POST", "DELETE"]),
        Route("/api/live", site.feed.live),
        Route("/api/{name}", site.feed.document),
        Route("/do/{name}", act, methods=["POST"]),
        Mount("/static/base", StaticFiles(directory=BASE)),
        Mount("/static", StaticFiles(directory=site.assets)),
    ]
    return Guard(Starlette(routes=routes), policy, OPEN)


async def _act(request: Request, site: Site) -> Response:
    action = site.actions.get(request.path_params["name"])
    if action is None:
        return JSONResponse({"error": "there is no such action"}, 404)
    try:
        words = await _words(request)
        answer = await run_in_threadpool(action, words)
    except FleetError as error:
        document = {"error": error.words, "hint": error.hint, "code": error.code}
        return JSONResponse(document, 400)
    except (KeyError, TypeError, ValueError):
        return JSONResponse({"error": "the words of this action are wrong"}, 400)
    site.feed.changed()
    return JSONResponse(dict(answer))


async def _words(request: Request) -> dict[str, Any]:
    body = await request.body()
    words = json.loads(body or b"{}")
    if not isinstance(words, dict):
        raise ValueError("an object is due")
    return words


async def _session(request: Request, site: Site, policy: Policy) -> Response:
    who: Visitor = request.state.visitor
    if request.method == "GET":
        looks = policy.free or who.steers
        return JSONResponse(
            {
                "page": site.name,
                "by": who.by,
                "name": who.name,
                "csrf": who.csrf,
                "looks": looks,
                "steers": who.steers,
            }
        )
    response = JSONResponse({})
    # Else a browser that came by TLS would say it in the open, too.
    secure = urlsplit(request.headers.get("origin", "")).scheme == "https"
    if request.method == "DELETE":
        response.delete_cookie(policy.cookie, secure=secure, httponly=True, samesite="strict")
        return response
    try:
        token = (await _words(request)).get("token")
    except ValueError:
        token = None
    if not isinstance(token, str) or not policy.passkey.matches(token.strip()):
        return JSONResponse({"error": "that is not this page's token"}, 403)
    response.set_cookie(
        policy.cookie,
        policy.passkey.session(time.time()),
        SECONDS,
        secure=secure,
        httponly=True,
        samesite="strict",
    )
    return response
