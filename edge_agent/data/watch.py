"""Notices that a device's samples changed, by what the file system says; nothing is opened."""

from __future__ import annotations

import os
from pathlib import Path

from edge_agent.config import DataSection

_DEPTH = 2  # root/<class> and root/<group>/<class>


def stamp(section: DataSection) -> str:
    """A word that changes when samples come or go; empty for sources that cannot change."""
    return "|".join(
        filter(
            None,
            (_stamp(Path(section.source)), _stamp(Path(section.rows)) if section.rows else ""),
        )
    )


def _stamp(path: Path) -> str:
    # A source may be a data set's name or module:function; as a path it does not exist (or, with a
    # zero byte in it, cannot), and such sources do not change.
    try:
        status = path.stat()
    except (OSError, ValueError):
        return ""
    if not path.is_dir():
        return f"{status.st_mtime_ns}:{status.st_size}"
    # A folder's own time changes whenever a file in it is made or removed: folders suffice, however
    # many files.
    return ",".join(f"{name}:{when}" for name, when in sorted(_folders(path, "", _DEPTH)))


def _folders(path: Path, name: str, depth: int) -> list[tuple[str, int]]:
    try:
        folders = [(name, path.stat().st_mtime_ns)]
        if depth:
            with os.scandir(path) as entries:
                below = [e.name for e in entries if e.is_dir() and not e.name.startswith(".")]
            for child in below:
                folders += _folders(path / child, f"{name}/{child}", depth - 1)
    except OSError:
        return []  # removed while it was looked at: the next look sees that it is not there
    return folders
