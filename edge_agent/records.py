"""What a device's store holds and how it can fail: records, the tables they live in, and its
errors.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from protofleet.errors import FleetError

VERSION = 2
# Settled uploads of a run whose bytes are kept, at least so many and up to so many bytes: a
# coordinator that lost its last writes may ask again.
KEPT, KEPT_BYTES = 2, 8 << 20
REMEMBERED = 200  # rounds whose receipts are kept
RUNS = 3  # runs whose checkpoint is kept: a fleet that was started anew by mistake may be put back
# Of the outbox, `body` is NULL once its bytes are given up and only the receipt is kept.
SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE checkpoint (
    run TEXT PRIMARY KEY, round INTEGER NOT NULL, base TEXT NOT NULL, base_round INTEGER NOT NULL,
    body BLOB NOT NULL, made REAL NOT NULL);
CREATE TABLE outbox (
    run TEXT NOT NULL, round INTEGER NOT NULL, base TEXT NOT NULL, method TEXT NOT NULL,
    digest TEXT NOT NULL, body BLOB, boot TEXT NOT NULL, seq INTEGER NOT NULL,
    status TEXT NOT NULL, reason TEXT NOT NULL, words TEXT NOT NULL, epoch INTEGER NOT NULL,
    made REAL NOT NULL, PRIMARY KEY (run, round));
CREATE INDEX waiting ON outbox (run, status, round);
CREATE TABLE states (
    at INTEGER PRIMARY KEY, kind TEXT NOT NULL, run TEXT NOT NULL, round INTEGER NOT NULL,
    base TEXT NOT NULL, message BLOB NOT NULL, UNIQUE (kind, run, round, base));
"""
# What came after the first release, by the version that it made.
STEPS = {
    2: """
CREATE TABLE seats (
    run TEXT NOT NULL, round INTEGER NOT NULL, session BLOB NOT NULL, memory BLOB NOT NULL,
    letter BLOB NOT NULL, PRIMARY KEY (run, round)) WITHOUT ROWID;
"""
}


class StoreError(FleetError):
    """The device's own database cannot be used."""

    code = "bad-store"


class NoStore(StoreError):
    """There is no database: the device has not run here yet."""


class DiskFull(StoreError):
    """No room for the database; what was committed stays."""

    code = "disk-full"


class Orphaned(StoreError):
    """A training process that outlived its daemon: its outcome is not wanted any more."""

    code = "orphaned"


class StoreInUse(StoreError):
    """Another daemon works in this directory."""

    code = "taken"


@dataclass(frozen=True)
class Checkpoint:
    """A device after the last round it trained in a run."""

    round: int
    base_round: int
    base: str
    body: bytes


@dataclass(frozen=True)
class OutboxEntry:
    """What a device has to deliver for a round: `body` is an upload's parts as they travel."""

    run: str
    round: int
    base: str
    method: str
    digest: str
    body: bytes
    boot: str
    seq: int
    status: str = "waiting"
    reason: str = ""
    words: str = ""
    epoch: int = 0


@dataclass(frozen=True)
class SeatRecord:
    """A device's place in a round's masked sum: of which session, what it has to remember of it
    (nothing, once it is over), and what it said last.
    """

    session: bytes
    memory: bytes = b""
    letter: bytes = b""


@dataclass(frozen=True)
class HeldState:
    """A state as it arrived, for the training process to open."""

    run: str
    round: int
    base: str
    message: bytes


def named(path: Path, error: sqlite3.Error) -> StoreError:
    """Whatever SQLite has to say, as one of ours."""
    words = " ".join(str(error).split())
    code = getattr(error, "sqlite_errorname", "") or ""
    if code.startswith("SQLITE_FULL"):
        return DiskFull(
            f"{path}: the disk is full", "make room; nothing that was committed is lost"
        )
    if code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return StoreError(
            f"{path} is damaged ({words})", "move it away: the device then begins its run anew"
        )
    return StoreError(f"{path}: {words}")
