"""Answers that could not be said yet, on disk: so many at most, and none older than so long."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from protofleet.errors import DataError
from protofleet.util.files import own_database, own_folder

_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  at REAL NOT NULL,
  line TEXT NOT NULL
)
"""


@dataclass(frozen=True)
class BacklogBounds:
    """What is kept at most."""

    number: int = 1000
    seconds: float = 86400.0


class Backlog:
    """In the order in which they were put; every change is one transaction."""

    def __init__(
        self, file: Path, bounds: BacklogBounds, wall: Callable[[], float] = time.time
    ) -> None:
        self._file, self._bounds, self._wall = file, bounds, wall
        self._size = 0
        if file.exists():
            with self._change() as db:
                self._size = int(db.execute("SELECT count(*) FROM answers").fetchone()[0])

    def __len__(self) -> int:
        return self._size

    def put(self, lines: Iterable[tuple[float, str]]) -> int:
        """Remember these, each with its time; how many others had to go for them."""
        with self._change() as db:
            db.executemany("INSERT INTO answers (at, line) VALUES (?, ?)", lines)
            return self._shortened(db)

    def first(self) -> tuple[int, str] | None:
        """The oldest, with the number that it is forgotten by."""
        if not self._size:
            return None
        with self._change() as db:
            self._shortened(db)
            row = db.execute("SELECT number, line FROM answers ORDER BY number LIMIT 1").fetchone()
        return None if row is None else (int(row[0]), str(row[1]))

    def forget(self, number: int) -> None:
        """It was said."""
        with self._change() as db:
            db.execute("DELETE FROM answers WHERE number = ?", (number,))
            self._size = int(db.execute("SELECT count(*) FROM answers").fetchone()[0])

    def _shortened(self, db: sqlite3.Connection) -> int:
        before = db.execute("SELECT count(*) FROM answers").fetchone()[0]
        # A clock that was set back makes answers of the future: they are as old as can be told.
        db.execute("DELETE FROM answers WHERE at < ?", (self._wall() - self._bounds.seconds,))
        db.execute(
            "DELETE FROM answers WHERE number NOT IN"
            " (SELECT number FROM answers ORDER BY number DESC LIMIT ?)",
            (self._bounds.number,),
        )
        self._size = int(db.execute("SELECT count(*) FROM answers").fetchone()[0])
        return int(before) - self._size

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        # A connection a call: it is used by one thread after the other, and seldom.
        try:
            own_folder(self._file.parent)
            own_database(self._file)
            db = sqlite3.connect(self._file, timeout=10.0)
        except (OSError, sqlite3.Error) as error:
            raise DataError(f"{self._file}: {error}") from None
        try:
            with db:
                db.execute(_SCHEMA)
                yield db
        except sqlite3.Error as error:
            hint = "remove it: what waits there is lost"
            raise DataError(f"{self._file}: {error}", hint) from None
        finally:
            db.close()
