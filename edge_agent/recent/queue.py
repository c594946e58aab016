"""The recent queue: pictures that this device saw and is not sure of, on this device and nowhere
else, until its owner says what they show or throws them away.
"""

# Theory of operation
#
# Beside a bundle `B` lies the folder `B.recent/`:
#
#   queue.db           a row a picture: when, whence, what was answered, its feature, what became
#                      of it; and the owner's actions, so that they can be undone
#   pictures/<key>.jpg the picture; <key> is the SHA-256 of the file, as a sample's is
#   *.npz, report.json what all looked like (`window`)
#   now.jpg, now.json  the newest picture and its answer (`glance`)
#
# Whoever has answered a picture puts it in through `memory` (`edge-agent infer`, `edge-agent
# watch`): `Memory.add` decides whether it is worth asking about. To put one in by hand:
#
#   RecentQueue(bundle, RecentBounds()).add(
#       AnsweredPicture(jpeg, "mug", 0.4, False, time.time(), "door", lineage, feature))
#
# Any number of processes may do so at once, beside the page that empties the queue: SQLite orders
# them, each change is one transaction, and a connection lives as long as one call. Without a log
# beside the file (WAL) its time tells whether anything changed, and who only reads writes nothing.
#
#   a picture is      and becomes          by                         its photo in the samples
#   (nothing)         waiting              add                        -
#   waiting           naming, labelled     label (`labelling`)        written between the two
#   waiting           thrown               throw
#   labelled          clearing, waiting    undo                       removed between the two
#   thrown            waiting              undo
#
# `naming` and `clearing` are intents: a process that is killed between its two commits leaves one
# behind, and the next that opens the queue for changes does what was meant (`labelling.mend`).
# A file without a row is what a crash left between the two steps of `add`; it goes after an hour.
#
# Bounds hold after every `add`. What goes first is what was named or thrown away (its photo among
# the samples stays); then pictures that the fleet was sure of, the oldest first; then the oldest.
# What is older than so many days goes whatever there is room for. How much that is the daemon and
# the page have from `agent.toml`, and leave beside the bundle for everybody else (`agree`).

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np

from edge_agent.config import RecentSection
from edge_agent.updates import cache
from protofleet.errors import DataError, SettingError
from protofleet.settings.fields import from_plain
from protofleet.util.files import OWN_FILE, own_database, own_folder, write_whole
from protofleet.values.prototypes import Floats

SURE = 0.9  # a probability from which there is no need to ask
LARGEST_PICTURE = 1 << 20  # bytes
UNDONE_FOR = 86400.0  # seconds for which an action can be undone, if there is room
ORPHAN = 3600.0  # seconds after which a file that no row speaks of goes
DAY = 86400.0
REMEDY = "remove it: what waits in it is lost, what was named is not"

State = Literal["waiting", "naming", "labelled", "clearing", "thrown"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS pictures (
  key TEXT PRIMARY KEY,
  at REAL NOT NULL,
  source TEXT NOT NULL,
  answer TEXT NOT NULL,
  probability REAL,
  is_unknown INTEGER NOT NULL,
  lineage TEXT NOT NULL,
  feature BLOB NOT NULL,
  bytes INTEGER NOT NULL,
  state TEXT NOT NULL DEFAULT 'waiting',
  label TEXT NOT NULL DEFAULT '',
  photo TEXT NOT NULL DEFAULT '',
  action INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS by_time ON pictures (state, at);
CREATE TABLE IF NOT EXISTS actions (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  at REAL NOT NULL,
  label TEXT NOT NULL,
  pictures INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS clusters (number INTEGER NOT NULL, key TEXT NOT NULL);
"""
_COLUMNS = "key, at, source, answer, probability, is_unknown, state, label, photo, action"


@dataclass(frozen=True)
class RecentBounds:
    """How much is remembered at most."""

    number: int = 500
    bytes: int = 100 << 20
    seconds: float = 30 * DAY

    @staticmethod
    def of(section: RecentSection) -> RecentBounds:
        """As a device's settings have them."""
        return RecentBounds(section.pictures, section.megabytes << 20, section.days * DAY)


@dataclass(frozen=True, eq=False)
class AnsweredPicture:
    """A picture as it was answered; one without a picture is a sample that is none."""

    picture: bytes
    answer: str
    probability: float | None
    unknown: bool
    at: float
    source: str
    lineage: str
    feature: Floats

    @property
    def key(self) -> str:
        """What it is called: the same picture, the same key."""
        return sha256(self.picture or self.feature.tobytes()).hexdigest()


@dataclass(frozen=True)
class RecentPicture:
    """One of the queue."""

    key: str
    at: float
    source: str
    answer: str
    probability: float | None
    unknown: bool
    state: State
    label: str
    photo: str  # its file among the samples, once it was named
    action: int

    @property
    def surely(self) -> bool:
        """Whether the fleet had no doubt."""
        return not self.unknown and self.probability is not None and self.probability >= SURE


@dataclass(frozen=True)
class Action:
    """What the owner did last, to how many pictures; an empty label threw them away."""

    number: int
    at: float
    label: str
    pictures: int


def agree(bundle: Path, bounds: RecentBounds) -> None:
    """These hold for whoever puts pictures into the queue of this bundle, and knows no settings."""
    file = bounds_file(bundle)
    if agreed(bundle) != bounds:
        with suppress(OSError):  # a full disk: the bounds of before hold
            own_folder(file.parent)
            write_whole(file, json.dumps(asdict(bounds)).encode(), mode=OWN_FILE)


def agreed(bundle: Path) -> RecentBounds:
    """What was agreed on last, or else the usual."""
    try:
        return from_plain(RecentBounds, json.loads(bounds_file(bundle).read_text()), "bounds")
    except (OSError, ValueError, SettingError):
        return RecentBounds()


def bounds_file(bundle: Path) -> Path:
    """Beside the bundle and not in the queue's folder, which a device that saw nothing has not."""
    return bundle.with_name(bundle.name + ".bounds.json")


class RecentQueue:
    """The queue beside a bundle."""

    def __init__(self, bundle: Path, bounds: RecentBounds | None = None) -> None:
        self.folder = cache.recent_folder(bundle)
        self._bounds = bounds or agreed(bundle)
        self._file = self.folder / "queue.db"

    @property
    def stamp(self) -> int:
        """A number that is another one when anything changed; 0 before the first picture."""
        try:
            return self._file.stat().st_mtime_ns
        except OSError:
            return 0

    def add(self, sighting: AnsweredPicture) -> bool:
        """Remember one; whether it is new. The same picture is remembered once."""
        key, size = sighting.key, len(sighting.picture)
        if size > LARGEST_PICTURE:
            raise DataError(f"a picture of {size} bytes, at most {LARGEST_PICTURE} are kept")
        with self._change() as db:
            if db.execute("SELECT 1 FROM pictures WHERE key = ?", (key,)).fetchone():
                return False
            if size:
                # Before its row: a row without a file would be asked about and could not be shown.
                write_whole(self.picture(key), sighting.picture, lasting=False, mode=OWN_FILE)
            db.execute(
                "INSERT INTO pictures (key, at, source, answer, probability, is_unknown, lineage,"
                " feature, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    key,
                    sighting.at,
                    sighting.source[:200],
                    sighting.answer,
                    sighting.probability,
                    int(sighting.unknown),
                    sighting.lineage,
                    _blob(sighting.feature),
                    size,
                ),
            )
            going = self._beyond(db, time.time())
            db.executemany("DELETE FROM pictures WHERE key = ?", [(one,) for one in going])
        self._unlink(going)
        return True

    def tidy(self, now: float) -> None:
        """Hold the bounds, and remove what a crash left."""
        if not self._file.exists():
            return
        with self._change() as db:
            going = self._beyond(db, now)
            db.executemany("DELETE FROM pictures WHERE key = ?", [(one,) for one in going])
            rows = {str(key) for (key,) in db.execute("SELECT key FROM pictures")}
        self._unlink(going)
        for file in (self.folder / "pictures").glob("*"):
            if file.stem not in rows and now - file.stat().st_mtime > ORPHAN:
                file.unlink(missing_ok=True)

    def forget(self, keys: Iterable[str]) -> None:
        """These are known otherwise, or nobody asks about them."""
        going = list(keys)
        with self._change() as db:
            db.executemany("DELETE FROM pictures WHERE key = ?", [(key,) for key in going])
        self._unlink(going)

    def pictures(self, *states: State) -> list[RecentPicture]:
        """Those in one of these states (none: all), the oldest first."""
        where = f"WHERE state IN ({_marks(states)})" if states else ""
        with self._reading() as db:
            rows = db.execute(f"SELECT {_COLUMNS} FROM pictures {where} ORDER BY at, key", states)
            return [_picture(row) for row in rows]

    def one(self, key: str) -> RecentPicture | None:
        """By its key."""
        with self._reading() as db:
            row = db.execute(f"SELECT {_COLUMNS} FROM pictures WHERE key = ?", (key,)).fetchone()
        return None if row is None else _picture(row)

    def picture(self, key: str) -> Path:
        """Where its file is."""
        return self.folder / "pictures" / f"{key}.jpg"

    def features(self, lineage: str, width: int, keys: Sequence[str]) -> dict[str, Floats]:
        """Of these, as far as this extractor looked at them."""
        with self._reading() as db:
            rows = db.execute(
                "SELECT key, feature FROM pictures WHERE lineage = ? AND length(feature) = ?",
                (lineage, 4 * width),
            ).fetchall()
        wanted = set(keys)
        return {key: np.frombuffer(data, "<f4") for key, data in rows if key in wanted}

    def answered(self, key: str, sighting: AnsweredPicture) -> None:
        """Another answer to the same picture: the fleet learned, or has another extractor."""
        with self._change() as db:
            db.execute(
                "UPDATE pictures SET answer = ?, probability = ?, is_unknown = ?, lineage = ?,"
                " feature = ? WHERE key = ?",
                (
                    sighting.answer,
                    sighting.probability,
                    int(sighting.unknown),
                    sighting.lineage,
                    _blob(sighting.feature),
                    key,
                ),
            )

    # what a person does; `labelling` moves the photos

    def begin(self, keys: Iterable[str], label: str, photos: str, at: float) -> list[RecentPicture]:
        """Note that these are given a label (none: thrown away): an action, and which pictures it
        is of. Those that nobody waits for any more are left alone.
        """
        with self._change() as db:
            chosen = [key for key in dict.fromkeys(keys) if _is(db, key, "waiting")]
            if not chosen:
                return []
            number = db.execute(
                "INSERT INTO actions (at, label, pictures) VALUES (?, ?, ?)",
                (at, label, len(chosen)),
            ).lastrowid
            state: State = "naming" if label else "thrown"
            db.executemany(
                "UPDATE pictures SET state = ?, label = ?, photo = ?, action = ? WHERE key = ?",
                [
                    (state, label, photos.format(key=key) if label else "", number, key)
                    for key in chosen
                ],
            )
            rows = db.execute(f"SELECT {_COLUMNS} FROM pictures WHERE action = ?", (number,))
            return [_picture(row) for row in rows]

    def undoing(self, number: int | None = None) -> tuple[Action, list[RecentPicture]] | None:
        """Note that the last action, or this one, is taken back: it, and the pictures of it that
        are still there. None if there is nothing to take back.
        """
        with self._change() as db:
            row = db.execute(
                "SELECT number, at, label, pictures FROM actions WHERE ? IS NULL OR number = ?"
                " ORDER BY number DESC LIMIT 1",
                (number, number),
            ).fetchone()
            if row is None:
                return None
            action = Action(*row)
            db.execute("DELETE FROM actions WHERE number = ?", (action.number,))
            rows = db.execute(
                f"SELECT {_COLUMNS} FROM pictures WHERE action = ?", (action.number,)
            ).fetchall()
            db.execute("UPDATE pictures SET state = 'clearing' WHERE action = ?", (action.number,))
            return action, [_picture(row) for row in rows]

    def settle(self, keys: Iterable[str], state: State) -> None:
        """What was begun is done."""
        clear = ", label = '', photo = '', action = 0" if state == "waiting" else ""
        with self._change() as db:
            db.executemany(
                f"UPDATE pictures SET state = ?{clear} WHERE key = ?",
                [(state, key) for key in keys],
            )

    def last_action(self) -> Action | None:
        """What could be undone."""
        with self._reading() as db:
            row = db.execute(
                "SELECT number, at, label, pictures FROM actions ORDER BY number DESC LIMIT 1"
            ).fetchone()
        return None if row is None else Action(*row)

    # numbers that a person saw

    def list_clusters(self, clusters: Sequence[Sequence[str]]) -> None:
        """Remember which number means what, for whoever names one."""
        with self._change() as db:
            db.execute("DELETE FROM clusters")
            db.executemany(
                "INSERT INTO clusters VALUES (?, ?)",
                [(number, key) for number, keys in enumerate(clusters, 1) for key in keys],
            )

    def cluster(self, number: int) -> list[str]:
        """What was listed under this number, as far as it still waits; none if nothing was."""
        with self._reading() as db:
            rows = db.execute(
                "SELECT c.key FROM clusters c JOIN pictures p ON p.key = c.key"
                " WHERE c.number = ? AND p.state = 'waiting' ORDER BY p.at, p.key",
                (number,),
            )
            return [key for (key,) in rows]

    # how

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        """One transaction; it begins by waiting for whoever is at it."""
        own_folder(self.folder)
        own_folder(self.folder / "pictures")
        own_database(self._file)
        db = sqlite3.connect(self._file, timeout=20.0, isolation_level=None)
        try:
            db.execute("PRAGMA secure_delete = ON")
            db.executescript(_SCHEMA)
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")
        except sqlite3.Error as error:
            raise DataError(
                f"{self._file}: {error}", "remove it: what waits there is lost"
            ) from None
        finally:
            db.close()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        if not self._file.exists():
            with self._change():  # an empty one reads like any other
                pass
        db = sqlite3.connect(self._file, timeout=20.0, isolation_level=None)
        try:
            yield db
        except sqlite3.Error as error:
            raise DataError(
                f"{self._file}: {error}", "remove it: what waits there is lost"
            ) from None
        finally:
            db.close()

    def _beyond(self, db: sqlite3.Connection, now: float) -> list[str]:
        """What the bounds leave no room for."""
        rows = db.execute(
            "SELECT key, at, bytes, state, is_unknown, coalesce(probability, 0) FROM pictures"
            " WHERE state NOT IN ('naming', 'clearing')"
        ).fetchall()
        count, size = len(rows), sum(row[2] for row in rows)

        def worth(row: tuple[Any, ...]) -> tuple[int, float]:
            _, at, _, state, unknown, probability = row
            if state != "waiting":
                return (0, at)
            return (1 if not unknown and probability >= SURE else 2, at)

        going = []
        for row in sorted(rows, key=worth):
            old = now - row[1] > self._bounds.seconds
            full = count > self._bounds.number or size > self._bounds.bytes
            if old or full:
                going.append(str(row[0]))
                count, size = count - 1, size - row[2]
        return going

    def _unlink(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.picture(key).unlink(missing_ok=True)


def _picture(row: tuple[Any, ...]) -> RecentPicture:
    key, at, source, answer, probability, unknown, *rest = row
    return RecentPicture(key, at, source, answer, probability, bool(unknown), *rest)


def _is(db: sqlite3.Connection, key: str, state: State) -> bool:
    return bool(
        db.execute("SELECT 1 FROM pictures WHERE key = ? AND state = ?", (key, state)).fetchone()
    )


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _blob(feature: Floats) -> bytes:
    return np.ascontiguousarray(feature, "<f4").tobytes()
