"""A scrape of a coordinator: two questions at its socket, and the families that come of them."""

from __future__ import annotations

from pathlib import Path

from coordinator.metrics.measures import measures
from coordinator.service.control import NotRunning, ask
from protofleet.errors import FleetError
from protofleet.metrics.families import Family


def scraped(data_dir: Path) -> list[Family]:
    """Of the service at this data directory, if there is one."""
    try:
        return measures(ask(data_dir, "status"), ask(data_dir, "agents")["agents"])
    except FleetError:
        return measures(None)


def not_ready(data_dir: Path) -> str:
    """Why the fleet cannot be served just now; empty: it can."""
    try:
        status = ask(data_dir, "status")
    except NotRunning as error:
        return error.words
    return "" if status["connected"] else "no connection to the broker"
