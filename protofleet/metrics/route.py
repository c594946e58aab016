"""`GET /metrics`, as a route of any page."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from protofleet.metrics.exposition import Exposition, exposition
from protofleet.metrics.families import Family

PATH = "/metrics"


def metrics_route(families: Callable[[], Iterable[Family]]) -> Route:
    """`families` is called with each scrape, and may block."""

    async def metrics(request: Request) -> Response:
        accept = request.headers.get("accept", "")

        def answer() -> Exposition:
            return exposition(families(), accept)

        content_type, body = await run_in_threadpool(answer)
        return Response(body, headers={"content-type": content_type})

    return Route(PATH, metrics)
