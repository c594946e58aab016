"""Disks that are full, and writes that power took with it."""

import random
import shutil
import sqlite3

import pytest

from simulators.faults.cases import disks
from tests.simulators.faults.playing import chosen, play

MOSQUITTO = {
    "no room for the journal": (1,),
    "no room for the outbox": (4,),
    "no room to begin with": (0,),
    "power loss at the coordinator": (3,),
    "power loss everywhere": (1,),
    "power loss at a device": (1,),
}


@pytest.mark.parametrize(("case", "broker", "seed"), chosen(disks.CASES, MOSQUITTO))
def test_every_promise_is_kept(case, broker, seed, tmp_path):
    assert play(case, broker, seed, tmp_path)


def test_every_case_is_here():
    assert {case.name for case in disks.CASES} == set(MOSQUITTO)


@pytest.fixture
def database(tmp_path):
    """A database with ten commits in its log, as a process leaves it that is killed."""
    living = sqlite3.connect(tmp_path / "living.db", isolation_level=None)
    living.execute("PRAGMA journal_mode=WAL")
    living.execute("CREATE TABLE t (x)")
    living.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for x in range(10):
        living.execute("INSERT INTO t VALUES (?)", (x,))
    folder = tmp_path / "left"
    folder.mkdir()
    for name in ("living.db", "living.db-wal"):
        shutil.copy(tmp_path / name, folder / name)
    living.close()
    return folder / "living.db"


def rows(database):
    with sqlite3.connect(database) as db:
        return [x for (x,) in db.execute("SELECT x FROM t")]


@pytest.mark.parametrize("seed", range(8))
def test_a_log_that_is_cut_short_leaves_the_first_commits_whole(database, seed):
    disks.cut_short(database, random.Random(seed))
    there = rows(database)
    assert there == list(range(len(there)))


def test_a_cut_takes_no_more_than_it_is_allowed_to(database):
    def six(copy):
        return len(rows(copy / database.name)) >= 6

    lengths = set()
    for seed in range(6):
        copy = database.parent.parent / str(seed)
        shutil.copytree(database.parent, copy)
        disks.cut_short(copy / database.name, random.Random(seed), six)
        lengths.add(len(rows(copy / database.name)))
        assert not (copy / "cut").exists()
    assert min(lengths) >= 6
    assert len(lengths) > 1
