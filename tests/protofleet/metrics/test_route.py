"""`GET /metrics`: asked anew for each scrape, in the format that is asked for."""

import asyncio
import itertools

from prometheus_client.parser import text_string_to_metric_families

from protofleet.metrics.families import gauge
from protofleet.metrics.route import PATH, metrics_route


def get(route, accept=""):
    """Content type and text, by ASGI itself."""
    said = []
    headers = [(b"accept", accept.encode())]
    scope = {"type": "http", "method": "GET", "path": PATH, "headers": headers, "query_string": b""}

    async def receive():
        return {"type": "http.request"}

    async def send(message):
        said.append(message)

    asyncio.run(route.app(scope, receive, send))
    return dict(said[0]["headers"])[b"content-type"].decode(), said[1]["body"].decode()


def test_each_scrape_asks_anew_in_the_format_that_it_names():
    numbers = itertools.count(1)
    route = metrics_route(lambda: [gauge("protofleet_round", "Its number.", next(numbers))])
    for expected in (1.0, 2.0):
        kind, text = get(route)
        assert kind.startswith("text/plain")
        (family,) = text_string_to_metric_families(text)
        assert family.samples[0].value == expected
    kind, text = get(route, "application/openmetrics-text")
    assert kind.startswith("application/openmetrics-text")
    assert text.endswith("# EOF\n")
