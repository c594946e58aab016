"""Where a journal's tables lie: SQLite's file in the data directory, or a PostgreSQL server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from coordinator.errors import JournalError
from protofleet.errors import UsageError
from protofleet.util.files import OWN_FILE, write_whole

# Theory of operation
#
# There is one journal (`coordinator.journal.journal` and the tables beside it), in SQL that both
# engines understand: `?` for values, `ON CONFLICT ... DO UPDATE`, `excluded`. What differs is this:
#
#                     SQLite                          PostgreSQL
#   values            as they are                     `?` becomes `$1`, `?2` becomes `$2`
#   a key of JSON     json_extract                    the first key of that name, as text
#   schema number     PRAGMA user_version             a row of `meta`
#   bytes of uploads  in files beside it (segments)   in the table `blobs`: whoever takes over on
#                                                     another machine must have them
#   order of text     by bytes                        by bytes, as its columns are COLLATE "C"
#   one writer        a lock on the directory         that, and a lock of the server's
#   deleted           written over                    the table written anew; the server's log has
#                                                     it for as long as the server keeps that
#
# Errors. Whatever an engine raises is a `JournalError` in one line when it leaves here. Inside a
# block that writes nothing goes on after one: the block is rolled back.
#
# Which of the two. A data directory whose tables are on a server has a file `journal.url` that
# says on which; so every command goes by the directory, whichever it is. No password is ever in it:
# libpq has places for those (`~/.pgpass`, PGPASSFILE, PGPASSWORD, certificates).

POINTER = "journal.url"
FILE = "journal.db"
SCHEMES = ("postgresql", "postgres")
NAP = 0.25  # seconds between looks at a lock that somebody else holds

Row = tuple[Any, ...]


@dataclass(frozen=True)
class WriteClaim:
    """What to do where another coordinator has the journal: refuse, which is what happens if
    nothing is said; wait until it is gone, with a call of `standby` before each look; or end its
    connection to the server and take its place.
    """

    standby: Callable[[str], None] | None = None
    take_over: bool = False

    def wait(self, holder: str, where: str) -> None:
        """Until the next look; or the refusal."""
        if self.standby is None:
            raise JournalError(f"{where} is in use by another coordinator ({holder})")
        self.standby(holder)
        time.sleep(NAP)


def first(rows: Sequence[Row]) -> Row | None:
    """The row, where there is one."""
    return rows[0] if rows else None


REFUSED = WriteClaim()


class Database(Protocol):
    """What a journal asks of an engine."""

    @property
    def dialect(self) -> str:
        """Where the schema's scripts for it lie."""

    @property
    def first_step(self) -> int:
        """The first of the schema's steps that there is a script for: it makes all tables."""

    @property
    def bodies_inside(self) -> bool:
        """Whether bytes of uploads go into a table, and not into files beside it."""

    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """One statement, and all rows that it comes to."""

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """One statement with each of these."""

    def pages(self, sql: str) -> Iterator[list[Row]]:
        """Rows by the hundred, inside a block."""

    def begin(self) -> None:
        """A block that is all there or not at all."""

    def commit(self) -> None:
        """It is on disk when this returns. Where it raises, it may be there or not."""

    def rollback(self) -> None:
        """Nothing of it, if one is open."""

    def schema(self) -> int:
        """The number of the last step; 0 where there are no tables."""

    def step(self, version: int, script: str) -> None:
        """One step, whole or not at all."""

    def enter(self) -> None:
        """From here on this is the one that writes; the tables are there."""

    def field(self, column: str, key: str) -> str:
        """SQL for a key of a JSON document."""

    def size(self) -> int:
        """Bytes that the tables take."""

    def overwrite(self) -> None:
        """What is deleted from here on must not be left on disk."""

    def wiped(self, *tables: str) -> None:
        """Nor in what is beside it; as before `overwrite` again."""

    def reclaim(self) -> None:
        """Give room back to the disk."""

    def resume_numbers(self) -> None:
        """Rows were copied here with their numbers; new ones get the next."""

    def close(self) -> None:
        """Give connection and lock back."""


def opened(directory: Path, address: str, claim: WriteClaim | None) -> Database:
    """The engine of this directory; `address` moves it to a server, and is remembered. Without a
    claim it is only read.
    """
    place = address or address_of(directory)
    if address:
        check(address)
    if not place:
        from coordinator.journal.sqlite import SqliteDatabase

        return SqliteDatabase(directory / FILE, read_only=claim is None)
    if (directory / FILE).exists():
        raise JournalError(
            f"{directory} holds a journal of its own, beside {place}",
            f"`coordinator backup {directory} {place}` copies it there; then move {FILE} away",
        )
    from coordinator.journal.postgresql import PostgresDatabase

    database = PostgresDatabase(place, claim)
    if claim is not None and address_of(directory) != place:
        write_whole(directory / POINTER, f"{place}\n".encode(), mode=OWN_FILE)
    return database


def address_of(directory: Path) -> str:
    """Of the server that holds this directory's journal; empty where it is a file."""
    try:
        return (directory / POINTER).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def holds_journal(directory: Path) -> bool:
    """Whether a coordinator ever began here."""
    return (directory / FILE).exists() or bool(address_of(directory))


def is_address(text: str) -> bool:
    """Whether somebody means a server, and not a path."""
    return text.partition("://")[0] in SCHEMES and "://" in text


def check(address: str) -> None:
    """What may stand in settings, and be shown."""
    if not is_address(address):
        raise UsageError(f"journal {address!r}: no address of a server", "postgresql://HOST/NAME")
    try:
        password = urlsplit(address).password
    except ValueError:
        password = None
    if password is not None or "password=" in address:
        raise UsageError(
            "the journal's address has a password in it, and settings are shown",
            "~/.pgpass, PGPASSFILE and PGPASSWORD are for passwords",
        )
