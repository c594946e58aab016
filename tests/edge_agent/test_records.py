"""SQLite's errors as one of ours, and tables that stores of earlier releases have too."""

import sqlite3
from pathlib import Path

import pytest

from edge_agent.records import SCHEMA, STEPS, VERSION, DiskFull, StoreError, named

# As version 1 made them: another layout under the same number would break every device's store.
COLUMNS = {
    "meta": "name value",
    "checkpoint": "run round base base_round body made",
    "outbox": "run round base method digest body boot seq status reason words epoch made",
    "states": "at kind run round base message",
}


def error_of(statements, db):
    try:
        for statement in statements:
            db.execute(statement)
    except sqlite3.Error as error:
        return error
    raise AssertionError("nothing went wrong")


def test_a_full_disk_is_told_from_everything_else():
    db = sqlite3.connect(":memory:")
    fill = ["PRAGMA max_page_count = 2", "CREATE TABLE t (x)", "CREATE TABLE u (x)"]
    full = named(Path("agent.db"), error_of([*fill, "INSERT INTO t VALUES (zeroblob(9999))"], db))
    assert isinstance(full, DiskFull)
    assert str(full).startswith("agent.db: the disk is full")
    other = named(Path("agent.db"), error_of(["SELECT 1 FROM nowhere"], db))
    assert (type(other), str(other)) == (StoreError, "agent.db: no such table: nowhere")


def test_a_damaged_file_says_what_to_do(tmp_path):
    (tmp_path / "junk").write_bytes(b"not a database" * 100)
    db = sqlite3.connect(tmp_path / "junk")
    damaged = named(tmp_path / "junk", error_of(["SELECT * FROM sqlite_master"], db))
    assert "is damaged (file is not a database); move it away" in str(damaged)
    assert not isinstance(damaged, DiskFull)


def test_the_tables_of_version_1_are_what_they_were():
    db = sqlite3.connect(":memory:")
    db.executescript(SCHEMA)
    columns = {
        table: " ".join(row[1] for row in db.execute(f"PRAGMA table_info({table})"))
        for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    }
    assert columns == COLUMNS
    assert (VERSION, sorted(STEPS)) == (2, [2])
    insert = "INSERT INTO outbox VALUES ('r', 1, '', '', '', NULL, '', 0, '', '', '', 0, 0.0)"
    db.execute(insert)
    with pytest.raises(sqlite3.IntegrityError):  # a round has one upload
        db.execute(insert)
