"""A folder that a camera writes its pictures into, as a source of frames."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from edge_agent.cameras.frames import SIDE, Frame
from edge_agent.cameras.player import SourceLost
from edge_agent.data import files
from edge_agent.data.arrivals import Arrivals
from protofleet.errors import DataError

NAP, TURN = 0.1, 1.0  # seconds between two looks, and for which `next` looks


class FolderPlayer:
    """The newest picture that appears; what lay there before is no frame."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._stopped = folder, threading.Event()
        self._arrivals = Arrivals(folder, old=False)

    def next(self) -> Frame | None:
        """The newest picture of the next moment, if there is one."""
        end = time.monotonic() + TURN
        while time.monotonic() < end and not self._stopped.wait(NAP):
            if not self._folder.is_dir():
                raise SourceLost("the folder is not there")
            # Last seen unfinished one nap ago, so it is no older than that and the look itself.
            at = time.monotonic()
            fresh = self._arrivals.look()
            for path in sorted(fresh, key=_written, reverse=True):
                try:
                    return Frame(files.picture(path, SIDE), at)
                except DataError:
                    continue  # one that is no picture is no reason to miss the one before
        return None

    def interrupt(self) -> None:
        """End a `next` that waits."""
        self._stopped.set()

    def close(self) -> None:
        """Nothing is open."""


def _written(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
