"""A journal's tables in SQLite: one file, and its write-ahead log."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from coordinator.errors import JournalError
from coordinator.journal.database import Row
from protofleet.util.files import own_database

# `synchronous=FULL` makes COMMIT wait for the disk. The write-ahead log gives that with one wait
# instead of two, and lets others read while the coordinator writes.

PAGE = 500  # rows
REMEDY = "restore it from a backup, or name another data directory"


class SqliteDatabase:
    """See `coordinator.journal.database.Database`."""

    dialect = "sqlite"
    first_step = 1
    bodies_inside = False

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self._doing = "read"
        try:
            if read_only:
                uri = f"file:{path}?mode=ro"
                self._db = sqlite3.connect(uri, uri=True, isolation_level=None)
                return
            self._db = sqlite3.connect(own_database(path), isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
        except sqlite3.DatabaseError as error:
            raise JournalError(f"{path}: {error}", REMEDY) from error

    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        try:
            return self._db.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise self._in_words(error) from error

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        try:
            self._db.executemany(sql, rows)
        except sqlite3.Error as error:
            raise self._in_words(error) from error

    def pages(self, sql: str) -> Iterator[list[Row]]:
        try:
            rows = self._db.execute(sql)
            while page := rows.fetchmany(PAGE):
                yield page
        except sqlite3.Error as error:
            raise self._in_words(error) from error

    def begin(self) -> None:
        self._doing = "written"
        self.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self.execute("COMMIT")
        self._doing = "read"

    def rollback(self) -> None:
        self._doing = "read"
        if self._db.in_transaction:  # some errors end it
            self.execute("ROLLBACK")

    def schema(self) -> int:
        return int(self.execute("PRAGMA user_version")[0][0])

    def step(self, version: int, script: str) -> None:
        try:
            self._db.executescript(f"BEGIN; {script} PRAGMA user_version={version}; COMMIT;")
        except sqlite3.Error as error:
            raise JournalError(f"{self.path}: {error}", REMEDY) from error

    def enter(self) -> None:
        """The lock on the directory is enough."""

    def field(self, column: str, key: str) -> str:
        return f"json_extract({column}, '$.{key}')"

    def size(self) -> int:
        beside = self.path.with_name(f"{self.path.name}-wal")
        return sum(path.stat().st_size for path in (self.path, beside) if path.exists())

    def overwrite(self) -> None:
        self.execute("PRAGMA secure_delete=ON")

    def wiped(self, *tables: str) -> None:
        self.execute("PRAGMA secure_delete=OFF")
        self.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def reclaim(self) -> None:
        self.execute("VACUUM")
        self.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def resume_numbers(self) -> None:
        """It takes the number after the highest that is there."""

    def close(self) -> None:
        self._db.close()

    def _in_words(self, error: sqlite3.Error) -> JournalError:
        return JournalError(f"the journal cannot be {self._doing}: {error}")
