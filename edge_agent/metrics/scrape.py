"""A scrape of a device: what its processes left on disk, and the families that come of it."""

from __future__ import annotations

from pathlib import Path

from edge_agent.metrics.measures import measures
from edge_agent.metrics.standing import standing
from protofleet.errors import FleetError
from protofleet.metrics.families import Family


def scraped(data_dir: Path) -> list[Family]:
    """Of the device of this data directory, if a daemon ever ran there."""
    try:
        return measures(standing(data_dir))
    except FleetError:
        return measures(None)
