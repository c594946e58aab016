"""The journal: whole or not at all, one holder, and what is left of it after a crash at any
byte.
"""

import contextlib
import resource
import shutil
import sqlite3

import numpy as np
import pytest

from coordinator.errors import JournalError
from coordinator.journal.journal import Journal
from coordinator.journal.records import CutRecord, RoundRecord
from coordinator.journal.segments import LARGEST
from protofleet.exchange.state import GlobalState
from protofleet.values.prototypes import Prototypes


def journal(folder):
    return Journal(folder, lambda: 1.0)


def state(value):
    return GlobalState({"p": Prototypes(np.array([0]), np.full((1, 2), value))}, {"a": {}}, {})


def filled(folder, rounds):
    made = journal(folder)
    for r in range(1, rounds + 1):
        with made.commit():
            made.add_round(RoundRecord(r, "00" * 32, r - 1, ("a", "b"), True))
        with made.commit():
            made.add_uploads([(r, "a", f"{r:064x}", "accepted", bytes([r]) * 1000)])
        with made.commit():
            made.add_cut(CutRecord(r, "complete", ((r, "a", 1),)))
            made.add_state(r, state(r))
    return made


def test_what_is_committed_is_there_again(tmp_path):
    filled(tmp_path, 3).close()
    again = journal(tmp_path)
    assert [r.round for r in again.rounds()] == [1, 2, 3]
    assert again.upload(2, "a").cut == 2
    assert again.cut(3).counted == ((3, "a", 1),)
    assert again.state()[0] == 3
    assert again.state()[1] == state(3)
    assert again.state_hashes()[2] == state(2).sha256


def test_a_block_that_fails_leaves_nothing(tmp_path):
    made = filled(tmp_path, 1)
    with contextlib.suppress(RuntimeError), made.commit():
        made.add_uploads([(1, "b", "ff" * 32, "accepted", b"x")])
        raise RuntimeError
    assert made.upload(1, "b") is None
    assert [made.body(i) for i in (1, 2, 3)][2] is None


def test_an_upload_is_taken_once(tmp_path):
    made = filled(tmp_path, 1)
    with pytest.raises(JournalError), made.commit():
        made.add_uploads([(1, "a", "ff" * 32, "accepted", b"other")])
    assert made.upload(1, "a").digest == f"{1:064x}"


def test_one_coordinator_a_directory(tmp_path):
    made = journal(tmp_path)
    with pytest.raises(JournalError, match="in use by another coordinator"):
        journal(tmp_path)
    made.close()
    journal(tmp_path).close()


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


def test_compaction_keeps_hashes_and_the_last_rounds(tmp_path):
    made = filled(tmp_path, 10)
    assert made.compact(3) > 0
    assert len(made.state_hashes()) == 10
    assert made.state(2) is None
    assert made.state(9)[1] == state(9)
    assert made.body(made.upload(2, "a").blob) is None
    assert made.body(made.upload(9, "a").blob) == bytes([9]) * 1000


def test_what_is_forgotten_is_off_the_disk_once_its_file_is_full(tmp_path):
    made = filled(tmp_path, 1)
    for r in (2, 3):
        with made.commit():
            made.add_round(RoundRecord(r, "00" * 32, r - 1, ("a",), True))
            made.add_uploads([(r, "a", f"{r:064x}", "accepted", bytes([r]) * LARGEST)])
    made.forget(1)
    assert [path.name for path in tmp_path.glob("bodies-*")] == ["bodies-2"]
    assert [made.body(made.upload(r, "a").blob) is None for r in (1, 2, 3)] == [True, True, False]


def test_a_backup_is_a_whole_journal_in_one_file(tmp_path):
    made = filled(tmp_path / "live", 2)
    (tmp_path / "copy").mkdir()
    made.backup(tmp_path / "copy" / "journal.db")
    copy = journal(tmp_path / "copy")
    assert copy.state_hashes() == made.state_hashes()
    assert [copy.body(kept.blob) for kept in copy.uploads()] == [
        bytes([1]) * 1000,
        bytes([2]) * 1000,
    ]
    with copy.commit():
        copy.add_uploads([(2, "b", "ff" * 32, "accepted", b"after it came back")])
    assert copy.body(copy.upload(2, "b").blob) == b"after it came back"
    assert copy.state() == made.state()


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


def test_a_newer_schema_is_left_alone(tmp_path):
    journal(tmp_path).close()
    with sqlite3.connect(tmp_path / "journal.db") as db:
        db.execute("PRAGMA user_version=99")
    with pytest.raises(JournalError, match="schema 99"):
        journal(tmp_path)


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
    again._db.set_trace_callback(asked.append)
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


@pytest.mark.parametrize("ends", ["open", "cut", "done"])
def test_compacting_to_nothing_leaves_a_round_without_its_outcome_whole(tmp_path, ends):
    made = filled(tmp_path, 3)
    with made.commit():
        made.add_round(RoundRecord(4, "00" * 32, 3, ("a", "b"), True))
        made.add_uploads(
            [(3, "b", "ee" * 32, "held", b"late"), (4, "a", "ff" * 32, "accepted", b"x")]
        )
    if ends != "open":
        with made.commit():
            made.add_cut(CutRecord(4, "complete", ((4, "a", 1), (3, "b", 1))))
    if ends == "done":
        with made.commit():
            made.add_state(4, state(4))
    made.compact(0)
    bodies = [made.body(made.upload(*key).blob) for key in ((4, "a"), (3, "b"))]
    assert bodies == ([None, None] if ends == "done" else [b"x", b"late"])
    assert made.state()[1] == state(4 if ends == "done" else 3)
    assert made.body(made.upload(3, "a").blob) is None


def test_events_that_devices_cause_have_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr("coordinator.journal.journal.MOST_EVENTS", 200)
    made = journal(tmp_path)
    with made.commit():
        for number in range(1000):
            made.add_event("classes", 7, why=str(number))
    assert [event["why"] for event in made.events(last=1000)] == [*map(str, range(800, 1000))]
