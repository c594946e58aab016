"""What appears in a folder: files that are new or written anew, once they stay as they are."""

from __future__ import annotations

from pathlib import Path

from edge_agent.data import images
from protofleet.contract import Input
from protofleet.util.files import Stamp, stamp_of


class Arrivals:
    """A folder that is looked at again and again; of images, or of samples of another kind."""

    def __init__(self, folder: Path, kind: Input | None = None, *, old: bool = True) -> None:
        self._folder, self._kind = folder, kind
        self._done: dict[Path, Stamp] = {}
        self._now: dict[Path, Stamp] = {}
        if not old:  # what is there already did not appear
            self._done = self._now = self._stamps()

    def look(self) -> list[Path]:
        """What is new since the last look, or the one before."""
        before, self._now = self._now, self._stamps()
        self._done = {path: stamp for path, stamp in self._done.items() if path in self._now}
        # The same stamp twice, a while apart: a camera that is still writing would give half a
        # photo.
        fresh = [
            path
            for path, stamp in self._now.items()
            if before.get(path) == stamp != self._done.get(path)
        ]
        self._done |= {path: self._now[path] for path in fresh}
        return fresh

    def _stamps(self) -> dict[Path, Stamp]:
        files = images.find([self._folder], self._kind)
        return {path: stamp for path in files if (stamp := stamp_of(path))}
