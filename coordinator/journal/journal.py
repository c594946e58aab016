"""What must not be lost: who was asked, what was accepted, where a round was cut, what came out.
One SQLite file a run.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from itertools import count
from pathlib import Path
from typing import Any, Literal, TextIO

from coordinator.errors import JournalError
from coordinator.journal.minutes import GroupRecord, Minute, MinuteTables
from coordinator.journal.progress import RolloutTables
from coordinator.journal.records import CutRecord, RoundRecord, UploadRecord
from coordinator.journal.segments import SegmentLog, Span
from coordinator.journal.signatures import SignatureTables
from coordinator.journal.tables import LedgerTables
from protofleet.budget.released import noise_of, noise_steps
from protofleet.exchange.snapshot import pack, pack_state, unpack, unpack_state
from protofleet.exchange.state import GlobalState
from protofleet.util.files import Locked, lock, own_database, own_file
from protofleet.values.prototypes import Tensors
from protofleet.values.sums import Partial

# Theory of operation
#
# What a commit is. `with journal.commit():` is one transaction of SQLite: all that is written in it
# is there after a crash, or nothing. `synchronous=FULL` makes it wait for the disk, so whatever the
# core says after the block is true for good. The write-ahead log gives the same with one wait
# instead of two, and lets others read while the coordinator writes.
#
# The order. Bytes of uploads go to segments first (`coordinator.journal.segments`), inside the
# block but before its COMMIT; so no row ever points to bytes that are not there. A block that fails
# leaves bytes that nobody points to. From the rows of one round one can tell how far it came:
#
#   rounds    it was opened; devices may know of it
#   uploads   accepted or held, with bytes; or late, without
#   cuts      it was closed, and these uploads are in it; none that comes later is
#   noise     what is added to them before anybody sees them: in the cut's own commit, so that a cut
#             has one noise, whoever dies after it
#   states    what came out
#
# A cut that cannot be fused says why (`failed`), and its state is the one before it, written in the
# same commit: so it is closed like any other, and nobody tries it again.
#
# A round is written to `cuts` before it is fused and to `states` after. Whatever row is the last
# one is where the run goes on; see `recover` in `coordinator.core`.
#
# Where bytes lie. `blob` numbers name them, wherever they are: small things (states, and
# everything that a backup or compaction gathered) in the table `blobs`, uploads in segments by the
# table `logged`. Both count the same numbers, so a row that names bytes never has to say where they
# are, and they may move. A number whose bytes are nowhere means that they were forgotten.
#
# Schema steps. `PRAGMA user_version` says which schema a file has; each further one is a script
# of its own, run in one transaction with the change of that number, and never edited once released.
# A newer file is left alone. Steps so far: 1 the tables; 2 `files`; 3 the index of held uploads
# alone, as one over every status cost a write an upload; 4 `logged`; 5 `cuts.failed`; 6 the tables
# of the ledger (`coordinator.journal.tables`), in place of class means, which do not add up to it;
# 7 those of signatures (`coordinator.journal.signatures`); 8 those of masked sums
# (`coordinator.journal.minutes`); 9 `noise`; 10 those of rollouts (`coordinator.journal.progress`).
#
# One holder. Two processes that write would each be right alone; a lock on the directory keeps the
# second one out. `Journal.read` takes none: it sees the last commit, whoever holds the journal.
#
# Wall-clock times are written beside the rows for people. Nothing is ever decided by them.

SCHEMA = 10
UPLOAD = "round, agent, digest, blob, status, cut"  # as `UploadRecord` has them
ROUND = "round, base, base_round, asked, talks"  # as `RoundRecord` has them
_NOISE = "noise"
MOST_EVENTS = 100_000  # and a hundredth more


class Journal:
    """The file and its tables."""

    def __init__(
        self, directory: Path, wall: Callable[[], float], *, read_only: bool = False
    ) -> None:
        self.directory, self._wall = directory, wall
        self._lock: TextIO | None = None if read_only else _locked(directory)
        self._newest: RoundRecord | None = None
        self._segments = SegmentLog(directory)
        path = directory / "journal.db"
        try:
            if read_only:
                self._db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
                return
            self._db = sqlite3.connect(own_database(path), isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._migrate()
            self._segments.close_to_others()
        except sqlite3.DatabaseError as error:
            raise JournalError(
                f"{path}: {error}", "restore it from a backup, or name another data directory"
            ) from error

    @property
    def ledger(self) -> LedgerTables:
        """Contributions, counts, and what came of them."""
        return LedgerTables(self._db, self._wall)

    @property
    def signatures(self) -> SignatureTables:
        """Who signed what."""
        return SignatureTables(self._db, self._wall)

    @property
    def minutes(self) -> MinuteTables:
        """What groups of devices said in masked sums."""
        return MinuteTables(self._db, self._wall)

    @property
    def rollouts(self) -> RolloutTables:
        """Who is to run what, and who did when."""
        return RolloutTables(self._db, self._wall)

    @classmethod
    def read(cls, directory: Path) -> Journal:
        """One that is only looked at, whoever holds it."""
        if not (directory / "journal.db").exists():
            raise JournalError(f"{directory} holds no journal")
        return cls(directory, lambda: 0.0, read_only=True)

    def close(self) -> None:
        """Give the file and the lock back."""
        self._db.close()
        self._segments.close()
        if self._lock is not None:
            self._lock.close()

    @contextmanager
    def commit(self) -> Iterator[None]:
        """One transaction: all of it or nothing, and on disk when the block is left."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            raise JournalError(f"the journal cannot be written: {error}") from error
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        self._newest = None  # it may be a round that is not there now
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    # what is read

    def meta(self, key: str) -> str | None:
        """A remembered text."""
        row = self._db.execute("SELECT value FROM meta WHERE key=?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def rounds(self, last: int | None = None) -> list[RoundRecord]:
        """Rounds in order, or only the last so many."""
        limit = "" if last is None else f" LIMIT {last}"
        rows = self._db.execute(f"SELECT {ROUND} FROM rounds ORDER BY round DESC{limit}")
        return [_round(*row) for row in rows][::-1]

    def round(self, number: int) -> RoundRecord | None:
        """One round; the newest is asked for with every upload, and remembered."""
        if self._newest is not None and self._newest.round == number:
            return self._newest
        sql = f"SELECT {ROUND} FROM rounds WHERE round=?"
        row = self._db.execute(sql, (number,)).fetchone()
        return None if row is None else _round(*row)

    def upload(self, round: int, agent: str) -> UploadRecord | None:
        """What is known of one upload."""
        sql = f"SELECT {UPLOAD} FROM uploads WHERE round=? AND agent=?"
        row = self._db.execute(sql, (round, agent)).fetchone()
        return None if row is None else UploadRecord(*row)

    def uploads(
        self, round: int | None = None, status: Literal["accepted", "held"] | None = None
    ) -> list[UploadRecord]:
        """Uploads in order of round and agent."""
        where = [] if round is None else [f"round={round:d}"]
        # Spelled out, as only then the index of held ones is used.
        where += [] if status is None else [f"status='{status}'"]
        sql = (
            f"SELECT {UPLOAD} FROM uploads WHERE {' AND '.join(where) or '1'} ORDER BY round, agent"
        )
        return [UploadRecord(*row) for row in self._db.execute(sql)]

    def uploads_since(self, round: int) -> list[UploadRecord]:
        """Uploads of this round and later ones, in order."""
        sql = f"SELECT {UPLOAD} FROM uploads WHERE round>=? ORDER BY round, agent"
        return [UploadRecord(*row) for row in self._db.execute(sql, (round,))]

    def body(self, blob: int | None) -> bytes | None:
        """The bytes in this place; None once compacted away."""
        span = self._db.execute(
            "SELECT file, start, length FROM logged WHERE blob=?", (blob,)
        ).fetchone()
        if span is not None:
            return self._segments.read(Span(*span))
        row = self._db.execute("SELECT body FROM blobs WHERE id=?", (blob,)).fetchone()
        return None if row is None else bytes(row[0])

    def file(self, name: str) -> bytes | None:
        """A file that is kept here."""
        row = self._db.execute("SELECT body FROM files WHERE name=?", (name,)).fetchone()
        return None if row is None else bytes(row[0])

    def cut(self, round: int) -> CutRecord | None:
        """Where a round was cut."""
        row = self._db.execute(
            "SELECT round, reason, counted, failed FROM cuts WHERE round=?", (round,)
        ).fetchone()
        if row is None:
            return None
        counted = tuple((r, a, w) for r, a, w in json.loads(row[2]))
        return CutRecord(row[0], row[1], counted, row[3])

    def noise(self, round: int) -> Partial | None:
        """What is added to the uploads of a cut, where the run has a budget."""
        row = self._db.execute("SELECT body FROM noise WHERE round=?", (round,)).fetchone()
        part = None if row is None else unpack(zlib.decompress(row[0]))[_NOISE][_NOISE]
        return noise_of(part) if isinstance(part, Tensors) else None

    def state(self, round: int | None = None) -> tuple[int, GlobalState] | None:
        """The state that came out of a round, or the newest, with its round."""
        row = self._db.execute(
            "SELECT round, blob FROM states WHERE ?1 IS NULL OR round=?1 "
            "ORDER BY round DESC LIMIT 1",
            (round,),
        ).fetchone()
        body = None if row is None else self.body(row[1])
        return None if row is None or body is None else (int(row[0]), unpack_state(body))

    def state_hashes(self) -> dict[int, str]:
        """The hash of every state there was."""
        return dict(self._db.execute("SELECT round, sha256 FROM states ORDER BY round"))

    def state_hash(self, round: int) -> str | None:
        """The hash of the state that came out of a round."""
        row = self._db.execute("SELECT sha256 FROM states WHERE round=?", (round,)).fetchone()
        return None if row is None else str(row[0])

    def agents(self) -> dict[str, dict[str, Any]]:
        """Births by agent, as they were last said."""
        return {
            agent: json.loads(birth)
            for agent, birth in self._db.execute("SELECT agent, birth FROM agents")
        }

    def events(self, last: int = 100) -> list[dict[str, Any]]:
        """The newest events, oldest first."""
        rows = self._db.execute(
            "SELECT at, round, kind, body FROM events ORDER BY id DESC LIMIT ?", (last,)
        ).fetchall()
        return [
            {"at": at, "round": round, "kind": kind, **json.loads(body)}
            for at, round, kind, body in rows[::-1]
        ]

    def history(
        self, kind: str = "", agent: str = "", *, before: int | None = None, last: int = 100
    ) -> list[dict[str, Any]]:
        """The newest events of a kind and a device, oldest first, each with its number; `before`
        one of them, the next page.
        """
        rows = self._db.execute(
            "SELECT id, at, round, kind, body FROM events "
            "WHERE (?1 = '' OR kind = ?1) AND (?2 = '' OR json_extract(body, '$.agent') = ?2) "
            "AND (?3 IS NULL OR id < ?3) ORDER BY id DESC LIMIT ?4",
            (kind, agent, before, last),
        ).fetchall()
        return [
            {**json.loads(body), "id": number, "at": at, "round": round, "kind": kind}
            for number, at, round, kind, body in rows[::-1]
        ]

    def event_kinds(self) -> list[str]:
        """Of all events that are there."""
        return [kind for (kind,) in self._db.execute("SELECT DISTINCT kind FROM events ORDER BY 1")]

    # what is written, inside `commit`

    def set_meta(self, key: str, value: str) -> None:
        """Remember a text."""
        self._db.execute(
            "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT(key) DO UPDATE SET value=?2", (key, value)
        )

    def keep_file(self, name: str, body: bytes) -> None:
        """Keep a file; its name says what is in it."""
        self._db.execute(
            "INSERT INTO files VALUES (?, ?) ON CONFLICT(name) DO NOTHING", (name, body)
        )

    def put_file(self, name: str, body: bytes) -> None:
        """Keep a file in the place of the one that had this name."""
        self._db.execute("INSERT OR REPLACE INTO files VALUES (?, ?)", (name, body))

    def drop_files(self, but: Collection[str]) -> None:
        """Forget every file but these."""
        for (name,) in self._db.execute("SELECT name FROM files").fetchall():
            if name not in but:
                self._db.execute("DELETE FROM files WHERE name=?", (name,))

    def add_round(self, opened: RoundRecord) -> None:
        """A round is announced."""
        values = (
            opened.round,
            opened.base,
            opened.base_round,
            json.dumps(opened.asked),
            opened.talks,
            self._wall(),
        )
        self._db.execute("INSERT INTO rounds VALUES (?, ?, ?, ?, ?, ?)", values)
        self._newest = opened

    def add_uploads(self, uploads: Iterable[tuple[int, str, str, str, bytes]]) -> None:
        """Uploads came: round, agent, hash, status and message; of one that is only recorded the
        message is empty.
        """
        batch, at, numbers = list(uploads), self._wall(), count(self._next_blob())
        spans = self._segments.add([message for *_, message in batch if message])
        rows = [
            (*key, next(numbers) if message else None, status, at)
            for *key, status, message in batch
        ]
        blobs = (row[3] for row in rows if row[3])
        logged = [
            (blob, span.file, span.start, span.length)
            for blob, span in zip(blobs, spans, strict=True)
        ]
        self._db.executemany("INSERT INTO logged VALUES (?, ?, ?, ?)", logged)
        self._db.executemany("INSERT INTO uploads VALUES (?, ?, ?, ?, ?, NULL, ?)", rows)

    def add_minutes(self, session: bytes, minutes: Iterable[Minute]) -> None:
        """A group goes on: letters, whose bytes lie with those of uploads, and marks."""
        batch, numbers = list(minutes), count(self._next_blob())
        spans = iter(self._segments.add([minute.body for minute in batch if minute.body]))
        rows, logged = [], []
        for minute in batch:
            blob = None
            if minute.body:
                blob, span = next(numbers), next(spans)
                logged.append((blob, span.file, span.start, span.length))
            rows.append((session, minute.kind, minute.agent, blob))
        self._db.executemany("INSERT INTO logged VALUES (?, ?, ?, ?)", logged)
        self.minutes.put(rows)

    def minutes_of(self, group: GroupRecord) -> list[Minute] | None:
        """All of a group in its order; None once any of its bytes were forgotten."""
        minutes = []
        for kind, agent, blob in self.minutes.rows(group.session):
            body = b"" if blob is None else self.body(blob)
            if body is None:
                return None
            minutes.append(Minute(kind, agent, body))
        return minutes

    def _next_blob(self) -> int:
        """Numbers are shared by what lies in SQLite's file and what lies beside it."""
        last = (
            "SELECT max((SELECT coalesce(max(id), 0) FROM blobs), "
            "(SELECT coalesce(max(blob), 0) FROM logged))"
        )
        return int(self._db.execute(last).fetchone()[0]) + 1

    def add_cut(
        self, cut: CutRecord, left_out: Iterable[tuple[int, str]] = (), outdated: int = 0
    ) -> None:
        """A round is cut here; its uploads are fused in it; others are left out, and kept like late
        ones, as are those held of rounds before `outdated`: no later cut may take them in.
        """
        values = (cut.round, cut.reason, json.dumps(cut.counted), self._wall(), cut.failed)
        self._db.execute("INSERT INTO cuts VALUES (?, ?, ?, ?, ?)", values)
        self._db.executemany(
            "UPDATE uploads SET cut=?, status='accepted' WHERE round=? AND agent=?",
            [(cut.round, round, agent) for round, agent, _ in cut.counted],
        )
        self._db.executemany(
            "UPDATE uploads SET status='late' WHERE round=? AND agent=?", list(left_out)
        )
        self._db.execute(
            "UPDATE uploads SET status='late', blob=NULL WHERE status='held' AND round < ?",
            (outdated,),
        )

    def add_noise(self, round: int, noise: Partial) -> None:
        """What was drawn for a cut, in the commit of that."""
        body = zlib.compress(pack({_NOISE: {_NOISE: noise_steps(noise)}}), 1)
        self._db.execute("INSERT INTO noise VALUES (?, ?)", (round, body))

    def fail_cut(self, round: int, words: str) -> None:
        """What was cut cannot be fused: its state is the one before it."""
        self._db.execute("UPDATE cuts SET failed=? WHERE round=?", (words, round))

    def add_state(self, round: int, state: GlobalState) -> None:
        """What a round ended in."""
        blob = self._next_blob()
        self._db.execute("INSERT INTO blobs VALUES (?, ?)", (blob, pack_state(state)))
        self._db.execute(
            "INSERT INTO states VALUES (?, ?, ?, ?)", (round, state.sha256, blob, self._wall())
        )

    def add_agent(self, agent: str, birth: Mapping[str, Any]) -> None:
        """A device said who it is."""
        self._db.execute(
            "INSERT INTO agents VALUES (?1, ?2, ?3) "
            "ON CONFLICT(agent) DO UPDATE SET birth=?2, at=?3",
            (agent, json.dumps(dict(birth)), self._wall()),
        )

    def drop_agents(self, agents: Iterable[str]) -> None:
        """Forget who these devices are; what they sent stays."""
        self._db.executemany("DELETE FROM agents WHERE agent=?", [(agent,) for agent in agents])

    def add_event(self, kind: str, round: int | None = None, **body: Any) -> None:
        """Something an operator may want to know later, as far as there is room."""
        number = self._db.execute(
            "INSERT INTO events (at, round, kind, body) VALUES (?, ?, ?, ?)",
            (self._wall(), round, kind, json.dumps(body)),
        ).lastrowid
        # Devices cause some of them, and where no round opens nothing else drops any.
        if number is not None and number % (MOST_EVENTS // 100) == 0:
            self._db.execute("DELETE FROM events WHERE id <= ?", (number - MOST_EVENTS,))

    # upkeep

    def drop_gathered(self, but: Collection[bytes] = ()) -> None:
        """What groups of a ledger said, but of these sessions; their bytes go with them."""
        with self.commit():
            self.minutes.drop_gathered(but)
        live_files = self._db.execute("SELECT DISTINCT file FROM logged")
        self._segments.close()
        self._segments.drop(but=[file for (file,) in live_files])

    def forget(self, keep: int) -> None:
        """Drop the bytes of all but the last `keep` rounds; hashes, cuts and who sent what stay."""
        with self.commit():
            newest = self._db.execute("SELECT coalesce(max(round), 0) FROM rounds").fetchone()[0]
            # A round without its outcome needs all of its bytes, however few rounds are kept.
            settled = self._db.execute(
                "SELECT count(*) FROM cuts WHERE round=?1 AND (?1 IN (SELECT round FROM states) "
                "OR NOT (SELECT talks FROM rounds WHERE round=?1))",
                (newest,),
            ).fetchone()[0]
            edge = min(newest - keep, newest if settled else newest - 1)
            live = (
                "SELECT blob FROM uploads "
                "WHERE blob IS NOT NULL AND (round > ?1 OR cut > ?1 OR status = 'held') "
                "UNION SELECT blob FROM states "
                "WHERE round > ?1 OR round = (SELECT max(round) FROM states) "
                "UNION SELECT blob FROM minutes JOIN meetings USING (session) "
                "WHERE blob IS NOT NULL AND (round > ?1 OR round = 0)"
            )
            self._db.execute(f"DELETE FROM blobs WHERE id NOT IN ({live})", (edge,))
            self._db.execute(f"DELETE FROM logged WHERE blob NOT IN ({live})", (edge,))
            self._db.execute("DELETE FROM noise WHERE round <= ?", (edge,))
            self._db.execute("DELETE FROM events WHERE round <= ?", (edge,))
        # After the commit: a crash in between leaves a file too many, and not one too few.
        live_files = self._db.execute("SELECT DISTINCT file FROM logged")
        self._segments.drop(but=[file for (file,) in live_files])

    def compact(self, keep: int) -> int:
        """As `forget`, and give the room back to the disk; how many bytes that was."""
        before = self._size()
        self.forget(keep)
        with self.commit():
            self._gather(self._db)
        self._segments.drop(but=())
        self._db.execute("VACUUM")
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return before - self._size()

    def wipe(self) -> None:
        """Nothing of what was deleted stays in the log beside the file, either."""
        self._db.execute("PRAGMA secure_delete=OFF")
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def backup(self, target: Path) -> None:
        """A whole copy in one file, taken while the journal is in use."""
        copy = sqlite3.connect(own_file(target))
        try:
            self._db.backup(copy)
            with copy:
                self._gather(copy)
        finally:
            copy.close()

    def _gather(self, db: sqlite3.Connection) -> None:
        """Take messages that lie beside the file into it."""
        for blob, *span in db.execute("SELECT blob, file, start, length FROM logged").fetchall():
            body = self._segments.read(Span(*span))
            if body is not None:
                db.execute("INSERT INTO blobs VALUES (?, ?)", (blob, body))
        db.execute("DELETE FROM logged")

    def _size(self) -> int:
        path = self.directory / "journal.db"
        own = sum(p.stat().st_size for p in (path, path.with_name("journal.db-wal")) if p.exists())
        return own + self._segments.size()

    def _migrate(self) -> None:
        """Bring the file to this schema, one numbered step at a time."""
        have = int(self._db.execute("PRAGMA user_version").fetchone()[0])
        if have > SCHEMA:
            raise JournalError(
                f"the journal has schema {have}, this release knows {SCHEMA}", "use a newer release"
            )
        for version in range(have + 1, SCHEMA + 1):
            schema = resources.files("coordinator.journal").joinpath(f"schema/v{version}.sql")
            script = schema.read_text()
            self._db.executescript(f"BEGIN; {script} PRAGMA user_version={version}; COMMIT;")


def _locked(directory: Path) -> TextIO:
    try:
        return lock(directory)
    except Locked as error:
        raise JournalError(
            f"{directory} is in use by another coordinator (process {error.holder})"
        ) from None
    except OSError as error:
        raise JournalError(f"{directory} cannot be used: {error.strerror}") from error


def _round(number: int, base: str, base_round: int, agents: str, talks: int) -> RoundRecord:
    return RoundRecord(number, base, base_round, tuple(json.loads(agents)), bool(talks))
