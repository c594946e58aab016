"""What a person says of pictures becomes samples of this device, and is taken back: photos in the
folder `<class>/` that the daemon learns from.
"""

# Theory of operation
#
# The queue notes first what is meant (`naming`, `clearing`), then the photo is written or removed,
# then the queue notes that it is done. Whoever dies in between leaves the intent, and `mend` does
# it again: writing a photo that is there and removing one that is not change nothing.
#
#   <source>/<class>/<key>.jpg          a folder of classes, or none yet
#   <source>/train/<class>/<key>.jpg    a folder split into train and test
#   <source>/tapped/<class>/<key>.jpg   a folder of domains, as one more
#
# Taking back a photo that the fleet has heard of is said to the contribution, too (`statement`):
# its class is then left out of what this device says until so much else has changed that the
# difference shows no single photo.
#
# The daemon is told by `tapped`, a file whose time is that of the last tap: it looks at once, and
# not at its next round.

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from edge_agent.contributing import statement
from edge_agent.data.files import SUFFIXES
from edge_agent.recent.queue import Action, RecentPicture, RecentQueue
from edge_agent.updates import cache
from protofleet.errors import UsageError
from protofleet.util.files import OWN_FILE, own_folder, write_whole

LONGEST_NAME = 64  # as the coordinator takes it
TAPPED = "tapped"
_FORBIDDEN = re.compile(r"[/\\:{}\x00]")


def class_name(text: str) -> str:
    """As a class may be called, here and in the fleet, and as a folder can be; or `UsageError`."""
    name = " ".join(text.split())
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise UsageError(f"a class has a name of at most {LONGEST_NAME} letters")
    if _FORBIDDEN.search(name) or name.startswith((".", "_")):
        raise UsageError(f"{name!r}: no / \\ : {{ }} in a name, and no . or _ before it")
    return name


@dataclass(frozen=True)
class Labelling:
    """The queue beside a bundle, and the folder of samples."""

    bundle: Path
    source: Path
    now: Callable[[], float] = time.time

    @property
    def queue(self) -> RecentQueue:
        """What it is about."""
        return RecentQueue(self.bundle)

    def label(self, keys: Sequence[str], name: str) -> int:
        """These show this; how many of them were waiting."""
        name = class_name(name)
        folder = album(self.source) / _as_it_lies(album(self.source), name)
        pattern = str(folder).replace("{", "{{").replace("}", "}}") + "/{key}.jpg"
        rows = self.queue.begin(keys, name, pattern, self.now())
        self._write(rows)
        return len(rows)

    def throw(self, keys: Sequence[str]) -> int:
        """Nobody wants to name these; how many of them were waiting."""
        return len(self.queue.begin(keys, "", "", self.now()))

    def undo(self, number: int | None = None) -> Action | None:
        """Take the last action back, or this one: its pictures wait again."""
        undone = self.queue.undoing(number)
        if undone is None:
            return None
        action, rows = undone
        self._clear(rows)
        return action

    def mend(self) -> None:
        """Do what a process that was killed meant to do."""
        if not self.queue.folder.exists():
            return
        self._write(self.queue.pictures("naming"))
        self._clear(self.queue.pictures("clearing"))
        self.queue.tidy(self.now())

    def _write(self, rows: Sequence[RecentPicture]) -> None:
        for row in rows:
            if row.state != "naming":
                continue
            photo = Path(row.photo)
            own_folder(photo.parent)
            write_whole(photo, self.queue.picture(row.key).read_bytes(), mode=OWN_FILE)
        self.queue.settle([row.key for row in rows if row.state == "naming"], "labelled")
        self._tapped(rows)

    def _clear(self, rows: Sequence[RecentPicture]) -> None:
        photos = [Path(row.photo) for row in rows if row.photo]
        for photo in photos:
            photo.unlink(missing_ok=True)
            with suppress(OSError):  # there are others in it
                photo.parent.rmdir()
        statement.take_back(self.bundle, {photo.stem for photo in photos})
        self.queue.settle([row.key for row in rows], "waiting")
        self._tapped(rows)

    def _tapped(self, rows: Sequence[RecentPicture]) -> None:
        if rows:
            tapped_file(self.bundle).touch(mode=OWN_FILE)


def tapped_file(bundle: Path) -> Path:
    """Its time is that of the last tap."""
    return cache.recent_folder(bundle) / TAPPED


def album(source: Path) -> Path:
    """The folder of class folders that new photos go to."""
    if not source.is_dir():
        return source
    first = [p for p in source.iterdir() if p.is_dir() and not p.name.startswith((".", "__"))]
    if (source / "train").is_dir():
        return source / "train"
    groups = [p for p in first if any(child.is_dir() for child in p.iterdir())]
    if groups and not any(_holds_images(p) for p in first):
        return source / TAPPED
    return source


def samples_by_class(source: Path) -> dict[str, int]:
    """How many photos of each class there are to learn from."""
    from edge_agent.data import folders

    counts: dict[str, int] = {}
    if not source.is_dir() or not any(source.iterdir()):
        return counts
    for file in folders.listed(source, 0.0).train:
        counts[file.label] = counts.get(file.label, 0) + 1
    return counts


def _as_it_lies(folder: Path, name: str) -> str:
    """The name as its folder has it: Mug is no class beside mug."""
    if folder.is_dir():
        for other in folder.iterdir():
            if other.is_dir() and other.name.casefold() == name.casefold():
                return other.name
    return name


def _holds_images(folder: Path) -> bool:
    return any(p.suffix.lower() in SUFFIXES for p in folder.iterdir())
