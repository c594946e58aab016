"""A journal copied whole: for a backup, or from one engine to the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from coordinator.errors import JournalError
from coordinator.journal.database import Database, WriteClaim, is_address

# Whoever holds the journal is the only one who writes it, so one block sees one state of it. The
# copy is a block of its own: it is whole, or there is none.

TABLES = (
    "meta",
    "agents",
    "rounds",
    "blobs",
    "uploads",
    "cuts",
    "states",
    "events",
    "files",
    "contributions",
    "counts",
    "versions",
    "heard",
    "proofs",
    "meetings",
    "minutes",
    "noise",
    "rollouts",
    "members",
    "steps",
)
OWN = ("schema", "holder")  # rows of `meta` that are an engine's


def copied(
    source: Database,
    beside: Iterable[tuple[int, bytes]],
    target: str | Path,
    make: Callable[[Database], None],
) -> None:
    """All rows to a file, which is written anew, or to a server, where no journal may be yet; what
    lies `beside` the tables of the source goes into them.
    """
    with _target(target) as copy:
        make(copy)
        source.begin()
        try:
            copy.begin()
            for table in TABLES:
                _rows(table, source, copy)
            for row in beside:
                copy.execute("INSERT INTO blobs VALUES (?, ?)", row)
            copy.resume_numbers()
            copy.commit()
        finally:
            copy.rollback()
            source.rollback()


def _rows(table: str, source: Database, copy: Database) -> None:
    insert = ""
    for page in source.pages(f"SELECT * FROM {table}"):
        rows = [row for row in page if table != "meta" or row[0] not in OWN]
        insert = insert or f"INSERT INTO {table} VALUES ({', '.join('?' * len(page[0]))})"
        copy.executemany(insert, rows)


@contextmanager
def _target(target: str | Path) -> Iterator[Database]:
    with _server(target) if is_address(str(target)) else _file(Path(target)) as copy:
        yield copy


@contextmanager
def _server(address: str | Path) -> Iterator[Database]:
    from coordinator.journal.postgresql import PostgresDatabase

    copy = PostgresDatabase(str(address), WriteClaim())
    try:
        if copy.schema():
            raise JournalError(f"{address} holds a journal already", "name another database")
        yield copy
    finally:
        copy.close()


@contextmanager
def _file(target: Path) -> Iterator[Database]:
    from coordinator.journal.sqlite import SqliteDatabase

    new = target.with_name(f".{target.name}.new")
    try:
        new.unlink(missing_ok=True)
        copy = SqliteDatabase(new)
        try:
            yield copy
        finally:
            copy.close()
        for beside in ("-wal", "-shm"):  # of what is written over
            target.with_name(target.name + beside).unlink(missing_ok=True)
        new.replace(target)
    except OSError as error:
        raise JournalError(f"{target} cannot be written: {error.strerror}") from error
    finally:
        new.unlink(missing_ok=True)
