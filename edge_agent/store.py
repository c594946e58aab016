"""What a device must not lose: its checkpoint and its outbox, in one SQLite file that changes in
whole commits.
"""

# Theory of operation
#
# Two processes write here, the daemon and its training process, each over a connection of its own.
# SQLite orders their commits; each is one of these and holds what must change together:
#
#   commit            by         changes                          why together
#   commit_round      training   checkpoint, outbox               trained means in the outbox
#   settle            daemon     one upload's status; old bytes   a receipt frees what it answers
#   take_seat         daemon     a round's place in a masked sum  its memory is that of its answer
#   wait_again        daemon     one upload's status
#   hold              daemon     states: the newest two a kind    a new one pushes an old one out
#   take_over, note   both       meta
#
# The first is the one that counts. Were the checkpoint written before the upload, a crash between
# them would lose an upload that the coordinator waits for, of a round that is not trained again;
# the other way round, an upload would be delivered of a training that the device has forgotten. As
# it is, wherever the log ends, checkpoint and outbox agree on how far the device is, and a round
# that is trained again starts from the same checkpoint and gives the same bytes.
#
# A training process may outlive its daemon by some moments, and then commit over what a newer one
# has done. So a daemon writes its boot id when it starts (`take_over`), and `commit_round` looks in
# its own transaction whether the boot that ordered it still is the one: else it is `Orphaned` and
# nothing is written. In the same place it refuses a round that is not newer than the checkpoint.
#
# An upload is `waiting` until its receipt, and keeps its bytes that long however old it is. After
# that the bytes of the newest few are kept still, since a coordinator that lost its last writes
# asks for them again (`wait_again`); of older rounds the receipt alone stays, for a while.
#
# `synchronous=FULL` is what makes a commit survive the loss of power: with WAL and the usual
# NORMAL a committed transaction may be gone after it, though its upload was delivered. Writers
# wait for each other for 20 seconds (`timeout`): a commit on a slow card takes a while. All
# transactions begin IMMEDIATE, as one that starts by reading cannot become a writer if another
# wrote in between, however long it waits.

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from edge_agent.records import (
    KEPT,
    KEPT_BYTES,
    REMEMBERED,
    RUNS,
    SCHEMA,
    STEPS,
    VERSION,
    Checkpoint,
    HeldState,
    NoStore,
    Orphaned,
    OutboxEntry,
    SeatRecord,
    StoreError,
    StoreInUse,
    named,
)
from protofleet.util import files


class Store:
    """The file `agent.db` in a data directory. Each thread and process opens its own."""

    def __init__(self, folder: Path, *, create: bool = True, read_only: bool = False) -> None:
        self.path = folder / "agent.db"
        if (read_only or not create) and not self.path.exists():
            raise NoStore(f"{self.path}: no such file", "the device has not run here yet")
        with self._own_errors():
            if read_only:
                # Whoever only looks must not checkpoint the write-ahead log by closing last.
                uri = f"{self.path.absolute().as_uri()}?mode=ro"
                self._db = sqlite3.connect(uri, uri=True, timeout=20.0, isolation_level=None)
                if self._version() == 0:
                    raise NoStore(f"{self.path} is empty", "the device has not run here yet")
                return
            files.own_folder(folder)
            files.own_database(self.path)
            # Without an isolation level: else the module begins transactions of its own.
            self._db = sqlite3.connect(self.path, timeout=20.0, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            # Pages, 1.6 MB: the log is written twice, and small devices have little disk.
            self._db.execute("PRAGMA wal_autocheckpoint=400")
            self._prepare()

    def close(self) -> None:
        """Let the file go."""
        self._db.close()

    def check(self) -> None:
        """Refuse a damaged file before anything is built on it."""
        with self._own_errors():
            # The first fault is enough, and indexes are not compared with their tables: a daemon
            # must start within seconds.
            verdict = self._db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise StoreError(
                f"{self.path} is damaged ({' '.join(verdict.split())})",
                "move it away: the device then begins its run anew",
            )

    def take_over(self, boot: str) -> None:
        """From now on only training processes of this boot may commit."""
        self.note(boot=boot)

    def note(self, **values: str) -> None:
        """Remember small things by name."""
        with self.transaction() as db:
            db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values.items())

    def noted(self, name: str) -> str | None:
        """What was remembered under this name."""
        row = self._one("SELECT value FROM meta WHERE name = ?", name)
        return None if row is None else str(row[0])

    def all_noted(self, prefix: str) -> dict[str, str]:
        """What was remembered under names that begin so, without the prefix."""
        with self._own_errors():
            rows = self._db.execute(
                "SELECT name, value FROM meta WHERE substr(name, 1, ?) = ?", (len(prefix), prefix)
            )
            return {name[len(prefix) :]: value for name, value in rows}

    def commit_round(
        self, boot: str, run: str, checkpoint: Checkpoint, upload: OutboxEntry, now: float
    ) -> None:
        """The outcome of a round's training: all of it or nothing."""
        with self.transaction() as db:
            self._guard(db, boot, run, checkpoint)
            db.execute(
                "INSERT OR REPLACE INTO checkpoint VALUES (?, ?, ?, ?, ?, ?)",
                (
                    run,
                    checkpoint.round,
                    checkpoint.base,
                    checkpoint.base_round,
                    checkpoint.body,
                    now,
                ),
            )
            db.execute(
                "INSERT INTO outbox VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'waiting', '', '', 0, ?)",
                (
                    run,
                    upload.round,
                    upload.base,
                    upload.method,
                    upload.digest,
                    upload.body,
                    upload.boot,
                    upload.seq,
                    now,
                ),
            )
            db.execute(
                "DELETE FROM checkpoint WHERE run NOT IN"
                " (SELECT run FROM checkpoint ORDER BY made DESC LIMIT ?)",
                (RUNS,),
            )
            for table in ("outbox", "seats"):
                db.execute(f"DELETE FROM {table} WHERE run NOT IN (SELECT run FROM checkpoint)")

    def checkpoint(self, run: str) -> Checkpoint | None:
        """The device as it stands in this run; None before its first round."""
        row = self._one("SELECT round, base_round, base, body FROM checkpoint WHERE run = ?", run)
        return None if row is None else Checkpoint(*row)

    def standing(self, run: str) -> tuple[int, int]:
        """The last round trained in this run and the round its state came out of; (0, -1) before
        the first.
        """
        row = self._one("SELECT round, base_round FROM checkpoint WHERE run = ?", run)
        return (0, -1) if row is None else (row[0], row[1])

    def newest_run(self) -> str | None:
        """The run this device trained in last."""
        row = self._one("SELECT run FROM checkpoint ORDER BY made DESC LIMIT 1")
        return None if row is None else str(row[0])

    def newest(self, kind: str, run: str) -> bytes | None:
        """The message that brought the newest state of a kind."""
        # By arrival, not by round: a coordinator that lost its last state makes a lower one.
        row = self._one(
            "SELECT message FROM states WHERE kind = ? AND run = ? ORDER BY at DESC LIMIT 1",
            kind,
            run,
        )
        return None if row is None else bytes(row[0])

    def waiting(self, run: str) -> list[int]:
        """Rounds whose uploads have no receipt yet, oldest first."""
        with self._own_errors():
            rows = self._db.execute(
                "SELECT round FROM outbox WHERE run = ? AND status = 'waiting' ORDER BY round",
                (run,),
            )
            return [row[0] for row in rows]

    def upload(self, run: str, round: int) -> OutboxEntry | None:
        """An upload whose bytes are still here."""
        row = self._one(
            "SELECT run, round, base, method, digest, body, boot, seq, status, reason, words, epoch"
            " FROM outbox WHERE run = ? AND round = ? AND body IS NOT NULL",
            run,
            round,
        )
        return None if row is None else OutboxEntry(*row)

    def settle(
        self, run: str, round: int, status: str, reason: str, words: str, epoch: int
    ) -> None:
        """A receipt came: the coordinator has it, or does not want it."""
        with self.transaction() as db:
            db.execute(
                "UPDATE outbox SET status = ?, reason = ?, words = ?, epoch = ?"
                " WHERE run = ? AND round = ?",
                (status, reason, words, epoch, run, round),
            )
            # Counted from the newest round back: `place` uploads, `size` bytes up to here. Both
            # bounds must be passed, so that the newest few stay however large they are.
            db.execute(
                "UPDATE outbox SET body = NULL"
                " WHERE run = ? AND status != 'waiting' AND round IN (SELECT round FROM"
                " (SELECT round, row_number() OVER newest AS place,"
                " sum(length(body)) OVER newest AS size FROM outbox"
                " WHERE run = ? AND body IS NOT NULL WINDOW newest AS (ORDER BY round DESC))"
                " WHERE place > ? AND size > ?)",
                (run, run, KEPT, KEPT_BYTES),
            )
            db.execute(
                "DELETE FROM outbox WHERE run = ? AND status != 'waiting' AND round < ?",
                (run, round - REMEMBERED),
            )
            # Which session a round was of stays, so that it is never of a second one.
            db.execute(
                "UPDATE seats SET memory = x'', letter = x'' WHERE run = ? AND round = ?",
                (run, round),
            )
            db.execute("DELETE FROM seats WHERE run = ? AND round < ?", (run, round - REMEMBERED))

    def seat(self, run: str, round: int) -> SeatRecord | None:
        """A round's place in a masked sum."""
        row = self._one(
            "SELECT session, memory, letter FROM seats WHERE run = ? AND round = ?", run, round
        )
        return None if row is None else SeatRecord(*row)

    def take_seat(self, run: str, round: int, seat: SeatRecord) -> None:
        """What is to be said next, with what it was made of; on disk when this returns."""
        values = (run, round, seat.session, seat.memory, seat.letter)
        with self.transaction() as db:
            db.execute("INSERT OR REPLACE INTO seats VALUES (?, ?, ?, ?, ?)", values)

    def wait_again(self, run: str, round: int) -> bool:
        """Put a settled upload back; whether its bytes are still here."""
        with self.transaction() as db:
            update = db.execute(
                "UPDATE outbox SET status = 'waiting'"
                " WHERE run = ? AND round = ? AND body IS NOT NULL",
                (run, round),
            )
            return update.rowcount > 0

    def hold(self, kind: str, state: HeldState) -> None:
        """Keep the newest two states of a kind (`global`, `own`): training may still read the one
        before.
        """
        with self.transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO states (kind, run, round, base, message)"
                " VALUES (?, ?, ?, ?, ?)",
                (kind, state.run, state.round, state.base, state.message),
            )
            db.execute(
                "DELETE FROM states WHERE kind = ? AND at NOT IN"
                " (SELECT at FROM states WHERE kind = ? ORDER BY at DESC LIMIT 2)",
                (kind, kind),
            )

    def held(self, kind: str, run: str, round: int, base: str) -> bytes | None:
        """The message that brought this very state."""
        row = self._one(
            "SELECT message FROM states WHERE kind = ? AND run = ? AND round = ? AND base = ?",
            kind,
            run,
            round,
            base,
        )
        return None if row is None else bytes(row[0])

    def state(self, run: str, base: str) -> bytes | None:
        """The message that brought the shared state of this hash."""
        row = self._one(
            "SELECT message FROM states WHERE kind = 'global' AND run = ? AND base = ?"
            " ORDER BY at DESC LIMIT 1",
            run,
            base,
        )
        return None if row is None else bytes(row[0])

    def outcomes(self, run: str) -> list[tuple[int, str, str]]:
        """Round, digest and status of every upload of a run that is remembered."""
        with self._own_errors():
            return list(
                self._db.execute(
                    "SELECT round, digest, status FROM outbox WHERE run = ? ORDER BY round", (run,)
                )
            )

    def counts(self, run: str) -> dict[str, int]:
        """Uploads of a run by their status."""
        with self._own_errors():
            return dict(
                self._db.execute(
                    "SELECT status, count(*) FROM outbox WHERE run = ? GROUP BY status", (run,)
                )
            )

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """One commit, or none at all."""
        with self._own_errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                # On some errors, a full disk among them, SQLite has rolled back by itself.
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def _guard(self, db: sqlite3.Connection, boot: str, run: str, new: Checkpoint) -> None:
        owner = db.execute("SELECT value FROM meta WHERE name = 'boot'").fetchone()
        if owner is not None and owner[0] != boot:
            raise Orphaned(
                f"round {new.round}: the daemon that asked for it is gone", "nothing was written"
            )
        have = db.execute("SELECT round FROM checkpoint WHERE run = ?", (run,)).fetchone()
        if have is not None and have[0] >= new.round:
            raise Orphaned(
                f"round {new.round}: the checkpoint is already of round {have[0]}",
                "nothing was written",
            )

    def _prepare(self) -> None:
        if self._version() < VERSION:
            with self.transaction() as db:
                # Whatever another process has made since is there.
                for version in range(self._version() + 1, VERSION + 1):
                    for statement in filter(str.strip, STEPS.get(version, SCHEMA).split(";")):
                        db.execute(statement)
                db.execute(f"PRAGMA user_version = {VERSION}")

    def _version(self) -> int:
        """The version of the tables; 0 before there are any."""
        version: int = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version not in range(VERSION + 1):
            raise StoreError(
                f"{self.path} has version {version}, this release reads {VERSION}",
                "update edge-agent",
            )
        return version

    def _one(self, query: str, *values: Any) -> Any:
        with self._own_errors():
            return self._db.execute(query, values).fetchone()

    @contextmanager
    def _own_errors(self) -> Iterator[None]:
        """Whatever SQLite has to say in one line."""
        try:
            yield
        except OSError as error:
            raise StoreError(f"{self.path.parent}: {error.strerror}") from None
        except sqlite3.Error as error:
            raise named(self.path, error) from error


def lock(folder: Path) -> TextIO:
    """One daemon per data directory, for as long as the returned file is open."""
    try:
        return files.lock(folder)
    except files.Locked as error:
        raise StoreInUse(
            f"{folder}: another edge-agent works here (process {error.holder or 'unknown'})",
            "give each its own data_dir",
        ) from None
    except OSError as error:
        raise StoreError(
            f"{folder}: {error.strerror}", "name another data_dir, or its owner"
        ) from None
