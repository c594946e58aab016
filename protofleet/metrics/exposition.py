"""Families as Prometheus reads them: a collector over one status document, and the bytes of an
answer to `GET /metrics`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from protofleet.metrics.families import Family

# The client's names for kinds, and what it takes off a family's name.
SUFFIX = {"counter": "_total", "info": "_info", "gauge": "", "histogram": ""}


class Exposition(NamedTuple):
    """What goes back over HTTP."""

    content_type: str
    body: bytes


class StatusCollector(Collector):
    """Asks anew for each scrape: between two of them nothing is counted or remembered."""

    def __init__(self, families: Callable[[], Iterable[Family]]) -> None:
        self._families = families

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before it is asked for."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Each family that has points."""
        for family in self._families():
            if family.points:
                yield _metric(family)


def exposition(families: Iterable[Family], accept: str = "") -> Exposition:
    """In the format that the scraper's `Accept` header asks for."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StatusCollector(lambda: families))
    encode, content_type = choose_encoder(accept)
    return Exposition(content_type, encode(registry))


def _metric(family: Family) -> Metric:
    suffix = SUFFIX[family.kind]
    metric = Metric(family.name.removesuffix(suffix), family.help, family.kind)
    for point in family.points:
        name = metric.name + (point.suffix or suffix)
        metric.add_sample(name, dict(point.labels), point.value)
    return metric
