"""Notices that a device's samples changed, by what the file system says; nothing is opened."""

from __future__ import annotations

import os
from pathlib import Path

from edge_agent.config import DataSection

_DEPTH = 2  # root/<class> and root/<group>/<class>


def stamp(told: DataSection) -> str:
    """A word that changes when samples come or go; empty for sources that cannot change."""
    return "|".join(
        filter(None, (_stamp(Path(told.source)), _stamp(Path(told.rows)) if told.rows else ""))
    )


def _stamp(path: Path) -> str:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return ""
    if not path.is_dir():
        return f"{found.st_mtime_ns}:{found.st_size}"
    # A folder's own time changes whenever a file in it is made or removed: folders suffice, however
    # many files.
    return ",".join(f"{name}:{when}" for name, when in sorted(_folders(path, "", _DEPTH)))


def _folders(path: Path, name: str, depth: int) -> list[tuple[str, int]]:
    try:
        found = [(name, path.stat().st_mtime_ns)]
        if depth:
            with os.scandir(path) as entries:
                below = [e.name for e in entries if e.is_dir() and not e.name.startswith(".")]
            for each in below:
                found += _folders(path / each, f"{name}/{each}", depth - 1)
    except OSError:
        return []
    return found
