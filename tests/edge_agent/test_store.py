"""What was committed stays, what was not never was: over cut logs, full disks, left-over processes
and damage.
"""

import os
import shutil
import sqlite3

import pytest

from edge_agent.records import (
    Checkpoint,
    DiskFull,
    HeldState,
    NoStore,
    Orphaned,
    OutboxEntry,
    StoreError,
    StoreInUse,
)
from edge_agent.store import Store, lock

BOOT = "b" * 16


def checkpoint(round, size=100):
    return Checkpoint(round, round - 1, f"base{round}", bytes([round % 256]) * size)


def upload(round, run="r", size=50):
    return OutboxEntry(
        run,
        round,
        f"base{round}",
        "fedproto",
        f"digest{round}",
        bytes([round % 256]) * size,
        BOOT,
        round,
    )


def commit(store, round, run="r", boot=BOOT, size=100):
    store.commit_round(boot, run, checkpoint(round, size), upload(round, run), float(round))


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path / "device")
    made.take_over(BOOT)
    yield made
    made.close()


def test_trained_means_in_the_outbox(store):
    assert store.checkpoint("r") is None
    assert store.standing("r") == (0, -1)
    commit(store, 1)
    commit(store, 2)
    assert store.checkpoint("r") == checkpoint(2)
    assert store.standing("r") == (2, 1)
    assert store.waiting("r") == [1, 2]
    assert store.upload("r", 1) == upload(1)


def test_wherever_the_log_ends_checkpoint_and_outbox_agree(store, tmp_path):
    """Copies of a live database whose last writes were lost, as a power cut leaves them."""
    store.settle("r", 0, "accepted", "", "", 1)
    for round in range(1, 6):
        commit(store, round, size=3000)
        store.settle("r", round, "accepted", "", "", 1)
    wal = (tmp_path / "device" / "agent.db-wal").read_bytes()
    assert len(wal) > 60_000
    seen = []
    for cut in range(0, len(wal) + 1, 2027):
        copy = tmp_path / f"cut{cut}"
        copy.mkdir()
        shutil.copy(tmp_path / "device" / "agent.db", copy / "agent.db")
        (copy / "agent.db-wal").write_bytes(wal[:cut])
        found = Store(copy)
        found.check()
        have = found.checkpoint("r")
        uploads = sum(found.counts("r").values())
        assert uploads == (have.round if have else 0)
        assert have is None or have == checkpoint(have.round, 3000)
        seen.append(uploads)
        found.close()
        shutil.rmtree(copy)
    assert seen == sorted(seen)
    assert set(seen) == set(range(6))


def test_a_process_left_over_from_before_writes_nothing(store):
    commit(store, 1)
    store.take_over("n" * 16)
    with pytest.raises(Orphaned, match="the daemon that asked for it is gone"):
        commit(store, 2)
    assert store.standing("r") == (1, 0)
    assert store.waiting("r") == [1]


def test_an_older_round_does_not_overwrite_a_newer_one(store):
    commit(store, 3)
    with pytest.raises(Orphaned, match="already of round 3"):
        commit(store, 2)
    assert store.checkpoint("r") == checkpoint(3)


def test_a_full_disk_is_said_in_a_line_and_loses_nothing(store):
    commit(store, 1)
    with store.transaction() as db:
        pages = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(f"PRAGMA max_page_count = {pages + 1}")
    with pytest.raises(DiskFull, match="the disk is full; make room"):
        commit(store, 2, size=100_000)
    assert store.checkpoint("r") == checkpoint(1)
    assert store.waiting("r") == [1]
    with store.transaction() as db:
        db.execute("PRAGMA max_page_count = 1000000")
    commit(store, 2, size=100_000)
    assert store.waiting("r") == [1, 2]


@pytest.mark.parametrize("bytes", [b"not a database at all" * 100, None])
def test_a_damaged_file_is_said_in_a_line(tmp_path, bytes):
    store = Store(tmp_path)
    store.take_over(BOOT)
    for round in range(1, 9):
        commit(store, round, size=4000)
    store.close()
    whole = (tmp_path / "agent.db").read_bytes()
    (tmp_path / "agent.db").write_bytes(bytes or whole[:4096] + b"\0" * (len(whole) - 4096))
    with pytest.raises(StoreError, match=r"is damaged .*; move it away"):
        Store(tmp_path).check()


def test_a_file_of_a_newer_release_is_left_alone(tmp_path):
    Store(tmp_path).close()
    with sqlite3.connect(tmp_path / "agent.db") as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="has version 99, this release reads 2"):
        Store(tmp_path)


def test_receipts_empty_the_outbox_but_the_newest_bytes_stay_for_a_coordinator_that_lost_them(
    store,
):
    for round in range(1, 6):
        store.commit_round(BOOT, "r", checkpoint(round), upload(round, size=5 << 20), 0.0)
        store.settle("r", round, "accepted", "", "", 7)
    assert store.waiting("r") == []
    assert store.counts("r") == {"accepted": 5}
    assert [round for round in range(1, 6) if store.upload("r", round) is not None] == [4, 5]
    assert store.wait_again("r", 5)
    assert not store.wait_again("r", 1)
    assert store.waiting("r") == [5]


def test_small_uploads_are_kept_longer(store):
    for round in range(1, 6):
        commit(store, round)
        store.settle("r", round, "accepted", "", "", 7)
    assert [round for round in range(1, 6) if store.upload("r", round) is not None] == [
        1,
        2,
        3,
        4,
        5,
    ]


def test_an_upload_without_receipt_keeps_its_bytes_however_old_it_is(store):
    for round in range(1, 6):
        commit(store, round)
    for round in range(2, 6):
        store.settle("r", round, "accepted", "", "", 1)
    assert store.upload("r", 1) == upload(1)


def test_many_rounds_do_not_grow_the_file(store, tmp_path):
    def size():
        with store.transaction() as db:
            return db.execute("PRAGMA page_count").fetchone()[0]

    for round in range(1, 301):
        commit(store, round, size=400)
        store.settle("r", round, "accepted", "", "", 1)
        if round == 100:
            before = size()
    assert size() < before + 40
    assert sum(store.counts("r").values()) <= 202


def test_runs_are_kept_apart_and_the_oldest_is_forgotten(store):
    for at, run in enumerate(["one", "two", "three", "four"], 1):
        commit(store, at, run=run)
    assert store.checkpoint("one") is None
    assert store.waiting("one") == []
    assert store.standing("two") == (2, 1)


def test_the_two_newest_states_of_a_kind_are_held(store):
    for round in range(4):
        store.hold("global", HeldState("r", round, "base", bytes([round])))
        store.hold("own", HeldState("r", round, "base", b"own"))
    assert store.held("global", "r", 1, "base") is None
    assert store.held("global", "r", 2, "base") == b"\2"
    assert store.held("global", "r", 3, "base") == b"\3"
    assert store.held("global", "other", 3, "base") is None


def test_a_store_that_is_only_read_stays_as_it_was_left(store, tmp_path):
    commit(store, 1)
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "device", copy)  # as a device leaves it that is killed
    before = (copy / "agent.db-wal").read_bytes()
    reader = Store(copy, read_only=True)
    assert reader.outcomes("r") == [(1, "digest1", "waiting")]
    with pytest.raises(StoreError):
        commit(reader, 2)
    reader.close()
    assert (copy / "agent.db-wal").read_bytes() == before != b""


@pytest.mark.parametrize("there", [False, True])
def test_a_store_that_is_only_read_is_not_made(tmp_path, there):
    if there:
        sqlite3.connect(tmp_path / "agent.db").close()
        (tmp_path / "agent.db").touch()
    with pytest.raises(NoStore):
        Store(tmp_path, read_only=True)
    assert (tmp_path / "agent.db").exists() == there
    assert not there or not (tmp_path / "agent.db").read_bytes()


def test_one_daemon_a_directory(tmp_path):
    first = lock(tmp_path)
    with pytest.raises(StoreInUse, match="another edge-agent works here"):
        lock(tmp_path)
    first.close()
    lock(tmp_path).close()


def test_a_directory_that_cannot_be_made_is_said_in_a_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file"):
        lock(tmp_path / "file" / "below")


def test_checkpoint_and_outbox_are_their_owner_s_alone(tmp_path):
    before = os.umask(0)
    try:
        store = Store(tmp_path / "new")
        store.note(boot="b")
        modes = [p.stat().st_mode for p in (tmp_path / "new", *(tmp_path / "new").iterdir())]
        store.close()
    finally:
        os.umask(before)
    assert len(modes) == 4  # the folder, the file, its log and that one's index
    assert [mode for mode in modes if mode & 0o077] == []
