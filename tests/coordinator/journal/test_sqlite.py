"""A journal in SQLite: what is left of it after a crash at any byte, on a full disk, and of the
releases before.
"""

import resource
import shutil
import sqlite3

import numpy as np
import pytest

from coordinator.errors import JournalError
from coordinator.journal.journal import SCHEMA, Journal
from coordinator.journal.records import CutRecord, RoundRecord
from coordinator.journal.segments import LARGEST
from tests.coordinator.journal.test_journal import filled as filled_by


def journal(folder):
    return Journal(folder, lambda: 1.0)


def filled(folder, rounds):
    return filled_by(journal, folder, rounds)


def test_a_log_cut_short_loses_the_end_and_nothing_else(tmp_path):
    """Power loss: the write-ahead log ends anywhere, and no transaction is there in part or out of
    order.
    """
    made = filled(tmp_path / "live", 6)
    wal = (tmp_path / "live" / "journal.db-wal").read_bytes()
    seen = []
    for length in np.linspace(0, len(wal), 25).astype(int):
        copy = tmp_path / f"cut{length}"
        copy.mkdir()
        for name in ("journal.db", "bodies-1"):
            shutil.copy(tmp_path / "live" / name, copy)
        (copy / "journal.db-wal").write_bytes(wal[:length])
        found = journal(copy)
        rounds, cuts = len(found.rounds()), sum(found.cut(r) is not None for r in range(1, 7))
        uploads, states = len(found.uploads()), len(found.state_hashes())
        assert rounds >= uploads >= cuts == states >= rounds - 1
        assert [found.body(kept.blob) for kept in found.uploads()] == [
            bytes([r]) * 1000 for r in range(1, uploads + 1)
        ]
        seen.append(rounds)
        found.close()
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (0, 6)
    made.close()


def test_what_is_forgotten_is_off_the_disk_once_its_file_is_full(tmp_path):
    made = filled(tmp_path, 1)
    for r in (2, 3):
        with made.commit():
            made.add_round(RoundRecord(r, "00" * 32, r - 1, ("a",), True))
            made.add_uploads([(r, "a", f"{r:064x}", "accepted", bytes([r]) * LARGEST)])
    made.forget(1)
    assert [path.name for path in tmp_path.glob("bodies-*")] == ["bodies-2"]
    assert [made.body(made.upload(r, "a").blob) is None for r in (1, 2, 3)] == [True, True, False]


def test_a_disk_that_is_full_in_the_middle_of_an_upload_loses_that_one_alone(tmp_path):
    made = filled(tmp_path, 1)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        for _ in range(3):
            with pytest.raises(JournalError, match="cannot be written"), made.commit():
                made.add_uploads([(1, "b", "ff" * 32, "accepted", b"b" * (2 << 20))])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    with made.commit():
        made.add_uploads([(1, "c", "ff" * 32, "accepted", b"c")])
    assert [made.body(kept.blob) for kept in made.uploads()] == [bytes([1]) * 1000, b"c"]
    assert {path.name: path.stat().st_size for path in tmp_path.glob("bodies-*")} == {
        "bodies-1": 1000,
        "bodies-2": 1,
    }


def test_files_that_are_no_journal_are_refused_in_one_line(tmp_path):
    (tmp_path / "journal.db").write_bytes(
        b"not a database at all, but long enough to be looked at" * 50
    )
    with pytest.raises(JournalError) as caught:
        journal(tmp_path)
    assert "\n" not in str(caught.value)


def test_held_uploads_are_found_by_their_index_also_in_a_journal_of_the_release_before(tmp_path):
    first = filled(tmp_path, 3)
    with first.commit():
        first.add_uploads([(round, "b", "0" * 64, "held", b"late") for round in (3, 2)])
    first.close()
    with sqlite3.connect(tmp_path / "journal.db") as db:
        db.executescript("DROP TABLE logged; DROP INDEX uploads_held;")
        db.execute("ALTER TABLE cuts DROP COLUMN failed")
        db.execute("CREATE INDEX uploads_by_status ON uploads (status)")
        db.execute("PRAGMA user_version=2")
    again = journal(tmp_path)
    asked = []
    again._db._db.set_trace_callback(asked.append)
    assert [(kept.round, kept.agent) for kept in again.uploads(None, "held")] == [
        (2, "b"),
        (3, "b"),
    ]
    assert [kept.agent for kept in again.uploads(3, "accepted")] == ["a"]
    again.close()
    with sqlite3.connect(tmp_path / "journal.db") as db:
        assert "uploads_held" in str(db.execute(f"EXPLAIN QUERY PLAN {asked[0]}").fetchall())
        assert not db.execute(
            "SELECT 1 FROM sqlite_master WHERE name='uploads_by_status'"
        ).fetchall()


def test_a_journal_of_the_release_before_is_brought_up_and_keeps_files(tmp_path):
    first = Journal(tmp_path, lambda: 0.0)
    with first.commit():
        first.set_meta("run", "r")
    first.close()
    with sqlite3.connect(tmp_path / "journal.db") as db:
        db.executescript("DROP TABLE files; DROP TABLE logged;")
        db.execute("ALTER TABLE cuts DROP COLUMN failed")
        db.execute("PRAGMA user_version=1")
    again = Journal(tmp_path, lambda: 0.0)
    with again.commit():
        again.keep_file("a", b"first")
        again.keep_file("b", b"second")
        again.drop_files({"b"})
    again.backup(tmp_path / "copy.db")
    again.close()
    (tmp_path / "restored").mkdir()
    (tmp_path / "copy.db").rename(tmp_path / "restored" / "journal.db")
    restored = Journal(tmp_path / "restored", lambda: 0.0)
    assert (restored.meta("run"), restored.file("a"), restored.file("b")) == ("r", None, b"second")
    restored.close()


def test_a_failed_cut_says_why_also_in_a_journal_that_had_none(tmp_path):
    first = filled(tmp_path, 2)
    first.close()
    with sqlite3.connect(tmp_path / "journal.db") as db:
        db.execute("ALTER TABLE cuts DROP COLUMN failed")
        db.execute("PRAGMA user_version=4")
    again = journal(tmp_path)
    with again.commit():
        again.fail_cut(2, "Singular matrix")
    assert [again.cut(r) for r in (1, 2)] == [
        CutRecord(1, "complete", ((1, "a", 1),)),
        CutRecord(2, "complete", ((2, "a", 1),), "Singular matrix"),
    ]


def test_a_journal_of_class_means_becomes_one_of_contributions(tmp_path):
    """What devices of an earlier release said of their samples is no contribution: they say it
    anew.
    """
    first = journal(tmp_path)
    with first.commit():
        first.set_meta("run", "r")
        first.set_meta("summaries", '{"a": "YQ=="}')
    first.close()
    with sqlite3.connect(tmp_path / "journal.db") as db:
        db.executescript("DROP TABLE contributions; DROP TABLE counts; DROP TABLE versions;")
        db.execute("PRAGMA user_version=5")
    again = journal(tmp_path)
    assert (again.meta("run"), again.meta("summaries")) == ("r", None)
    assert (again.ledger.contributions("e"), again.ledger.newest(), SCHEMA) == ([], None, 10)
