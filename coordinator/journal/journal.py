"""What must not be lost: who was asked, what was accepted, where a round was cut, what came out.
One run's: a file of SQLite in its directory, or tables on a PostgreSQL server.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TextIO

from coordinator.errors import JournalError, NoJournal
from coordinator.journal.copying import copied
from coordinator.journal.database import REFUSED, Database, WriteClaim, first, holds_journal, opened
from coordinator.journal.minutes import GroupRecord, Minute, MinuteTables
from coordinator.journal.progress import RolloutTables
from coordinator.journal.records import CutRecord, RoundRecord, UploadRecord
from coordinator.journal.segments import SegmentLog, Span
from coordinator.journal.signatures import SignatureTables
from coordinator.journal.tables import LedgerTables
from protofleet.budget.released import noise_of, noise_steps
from protofleet.exchange.snapshot import pack, pack_state, unpack, unpack_state
from protofleet.exchange.state import GlobalState
from protofleet.util.files import OWN_FILE, Locked, lock, write_whole
from protofleet.values.prototypes import Tensors
from protofleet.values.sums import Partial

# Theory of operation
#
# What a commit is. `with journal.commit():` is one transaction of the database: all that is written
# in it is there after a crash, or nothing. It waits for the disk, so whatever the core says after
# the block is true for good. Others read meanwhile, and see whole commits. A block inside another
# is part of it: whoever takes in many things that are each written by themselves has one wait.
#
# The order. Beside SQLite bytes of uploads go to segments first (`coordinator.journal.segments`),
# inside the block but before its COMMIT; so no row ever points to bytes that are not there. A block
# that fails leaves bytes that nobody points to. On a server they are rows of the same transaction.
# From the rows of one round one can tell how far it came:
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
# table `logged`, or on a server in `blobs`, too. Both count the same numbers, so a row that names
# bytes never has to say where they are, and they may move. A number whose bytes are nowhere means
# that they were forgotten.
#
# Schema steps. A number says which schema the tables have; each further one is a script of its own
# for either engine, run in one transaction with the change of that number, and never edited once
# released. A newer journal is left alone. Those before 10 are SQLite's alone: on a server 10 makes
# all tables. Steps so far: 1 the tables; 2 `files`; 3 the index of held uploads
# alone, as one over every status cost a write an upload; 4 `logged`; 5 `cuts.failed`; 6 the tables
# of the ledger (`coordinator.journal.tables`), in place of class means, which do not add up to it;
# 7 those of signatures (`coordinator.journal.signatures`); 8 those of masked sums
# (`coordinator.journal.minutes`); 9 `noise`; 10 those of rollouts (`coordinator.journal.progress`).
#
# One holder. Two processes that write would each be right alone; a lock on the directory keeps the
# second one out, and a server's lock one that has another directory (`WriteClaim`, and
# `coordinator.journal.postgresql`). `Journal.read` takes none: it sees the last commit, whoever
# holds the journal.
#
# Wall-clock times are written beside the rows for people. Nothing is ever decided by them.

SCHEMA = 10
UPLOAD = "round, agent, digest, blob, status, cut"  # as `UploadRecord` has them
ROUND = "round, base, base_round, asked, talks"  # as `RoundRecord` has them
_NOISE = "noise"
ASIDE = "aside:"  # names of files that are nobody's bundle
NUMBERED = (("id", "blobs"), ("blob", "logged"))  # where numbers of bytes are
MOST_EVENTS = 100_000  # and a hundredth more
REMEMBERED = 8  # rounds


class Journal:
    """A directory and its tables: in the file there, or on the server that `address` names."""

    def __init__(
        self,
        directory: Path,
        wall: Callable[[], float],
        *,
        read_only: bool = False,
        address: str = "",
        claim: WriteClaim = REFUSED,
    ) -> None:
        self.directory, self._wall = directory, wall
        self._lock: TextIO | None = None if read_only else _locked(directory, claim)
        self._rounds: dict[int, RoundRecord] = {}  # those that were asked for last
        self._within = self._spoiled = False  # a block is open; one inside it failed
        self._events = 0  # of this life
        try:
            self._db = opened(directory, address, None if read_only else claim)
        except BaseException:
            self._unlock()
            raise
        self._segments = None if self._db.bodies_inside else SegmentLog(directory)
        if read_only:
            return
        try:
            _migrate(self._db)
            self._db.enter()
            if self._segments is not None:
                self._segments.close_to_others()
        except BaseException:
            self.close()
            raise

    @property
    def segments(self) -> SegmentLog | None:
        """Where bytes of uploads lie beside the tables; None where they are in them."""
        return self._segments

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
    def read(cls, directory: Path, address: str = "") -> Journal:
        """One that is only looked at, whoever holds it."""
        if not address and not holds_journal(directory):
            raise NoJournal(f"{directory} holds no journal")
        journal = cls(directory, lambda: 0.0, read_only=True, address=address)
        try:
            if not journal._db.schema():
                raise NoJournal(f"{address or directory} holds no journal")
        except JournalError:
            journal.close()
            raise
        return journal

    def close(self) -> None:
        """Give the file and the lock back."""
        self._db.close()
        if self._segments is not None:
            self._segments.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()

    @contextmanager
    def commit(self) -> Iterator[None]:
        """One transaction: all of it or nothing, and on disk when the block is left. A block inside
        another is part of that, and on disk when that is left.
        """
        if self._within:
            try:
                yield
            except BaseException:
                self._spoiled = True  # whatever becomes of the error, half a block is not written
                raise
            return
        try:
            self._db.begin()
            self._within, self._spoiled = True, False
            yield
            if self._spoiled:
                raise JournalError("a part of what was to be written failed")
            self._db.commit()
        except BaseException:
            self._rounds.clear()  # they may be rounds that are not there now
            self._db.rollback()
            raise
        finally:
            self._within = False

    # what is read

    def meta(self, key: str) -> str | None:
        """A remembered text."""
        row = first(self._db.execute("SELECT value FROM meta WHERE key=?", (key,)))
        return None if row is None else str(row[0])

    def rounds(self, last: int | None = None) -> list[RoundRecord]:
        """Rounds in order, or only the last so many."""
        limit = "" if last is None else f" LIMIT {last}"
        rows = self._db.execute(f"SELECT {ROUND} FROM rounds ORDER BY round DESC{limit}")
        return [_round(*row) for row in rows][::-1]

    def round(self, number: int) -> RoundRecord | None:
        """One round; the last ones are asked for with every upload, and remembered, as each is as
        long as the names of all who were asked.
        """
        if number not in self._rounds:
            sql = f"SELECT {ROUND} FROM rounds WHERE round=?"
            row = first(self._db.execute(sql, (number,)))
            if row is None:
                return None
            self._remember(_round(*row))
        return self._rounds[number]

    def _remember(self, opened: RoundRecord) -> None:
        self._rounds[opened.round] = opened
        if len(self._rounds) > REMEMBERED:
            del self._rounds[next(iter(self._rounds))]

    def upload(self, round: int, agent: str) -> UploadRecord | None:
        """What is known of one upload."""
        sql = f"SELECT {UPLOAD} FROM uploads WHERE round=? AND agent=?"
        row = first(self._db.execute(sql, (round, agent)))
        return None if row is None else UploadRecord(*row)

    def uploads(
        self, round: int | None = None, status: Literal["accepted", "held"] | None = None
    ) -> list[UploadRecord]:
        """Uploads in order of round and agent."""
        where = [] if round is None else [f"round={round:d}"]
        # Spelled out, as only then the index of held ones is used.
        where += [] if status is None else [f"status='{status}'"]
        sql = f"SELECT {UPLOAD} FROM uploads{_where(where)} ORDER BY round, agent"
        return [UploadRecord(*row) for row in self._db.execute(sql)]

    def uploads_since(self, round: int) -> list[UploadRecord]:
        """Uploads of this round and later ones, in order."""
        sql = f"SELECT {UPLOAD} FROM uploads WHERE round>=? ORDER BY round, agent"
        return [UploadRecord(*row) for row in self._db.execute(sql, (round,))]

    def body(self, blob: int | None) -> bytes | None:
        """The bytes in this place; None once compacted away."""
        if self._segments is not None:
            sql = "SELECT file, start, length FROM logged WHERE blob=?"
            span = first(self._db.execute(sql, (blob,)))
            if span is not None:
                return self._segments.read(Span(*span))
        row = first(self._db.execute("SELECT body FROM blobs WHERE id=?", (blob,)))
        return None if row is None else bytes(row[0])

    def file(self, name: str) -> bytes | None:
        """A file that is kept here."""
        row = first(self._db.execute("SELECT body FROM files WHERE name=?", (name,)))
        return None if row is None else bytes(row[0])

    def aside(self, name: str) -> bytes | None:
        """What was put aside, if it is still there."""
        if self._db.bodies_inside:
            return self.file(ASIDE + name)
        try:
            return (self.directory / name).read_bytes()
        except OSError:
            return None

    def cut(self, round: int) -> CutRecord | None:
        """Where a round was cut."""
        sql = "SELECT round, reason, counted, failed FROM cuts WHERE round=?"
        row = first(self._db.execute(sql, (round,)))
        if row is None:
            return None
        counted = tuple((r, a, w) for r, a, w in json.loads(row[2]))
        return CutRecord(row[0], row[1], counted, row[3])

    def noise(self, round: int) -> Partial | None:
        """What is added to the uploads of a cut, where the run has a budget."""
        row = first(self._db.execute("SELECT body FROM noise WHERE round=?", (round,)))
        part = None if row is None else unpack(zlib.decompress(row[0]))[_NOISE][_NOISE]
        return noise_of(part) if isinstance(part, Tensors) else None

    def state(self, round: int | None = None) -> tuple[int, GlobalState] | None:
        """The state that came out of a round, or the newest, with its round."""
        where, values = ("", ()) if round is None else (" WHERE round=?", (round,))
        sql = f"SELECT round, blob FROM states{where} ORDER BY round DESC LIMIT 1"
        row = first(self._db.execute(sql, values))
        body = None if row is None else self.body(row[1])
        return None if row is None or body is None else (int(row[0]), unpack_state(body))

    def state_hashes(self) -> dict[int, str]:
        """The hash of every state there was."""
        rows = self._db.execute("SELECT round, sha256 FROM states ORDER BY round")
        return {int(round): str(sha256) for round, sha256 in rows}

    def state_hash(self, round: int) -> str | None:
        """The hash of the state that came out of a round."""
        row = first(self._db.execute("SELECT sha256 FROM states WHERE round=?", (round,)))
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
        )
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
        conditions = (
            ("kind=?", kind or None),
            (f"{self._db.field('body', 'agent')}=?", agent or None),
            ("id < ?", before),
        )
        where = [words for words, value in conditions if value is not None]
        values = [value for _, value in conditions if value is not None]
        sql = f"SELECT id, at, round, kind, body FROM events{_where(where)} ORDER BY id DESC"
        rows = self._db.execute(f"{sql} LIMIT ?", (*values, last))
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
            "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value=excluded.value",
            (key, value),
        )

    def keep_file(self, name: str, body: bytes) -> None:
        """Keep a file; its name says what is in it."""
        self._db.execute(
            "INSERT INTO files VALUES (?, ?) ON CONFLICT (name) DO NOTHING", (name, body)
        )

    def put_file(self, name: str, body: bytes) -> None:
        """Keep a file in the place of the one that had this name."""
        self._db.execute(
            "INSERT INTO files VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET body=excluded.body",
            (name, body),
        )

    def drop_files(self, but: Collection[str]) -> None:
        """Forget every file but these."""
        for (name,) in self._db.execute("SELECT name FROM files"):
            if name not in but and not (name.startswith(ASIDE) and self._db.bodies_inside):
                self._db.execute("DELETE FROM files WHERE name=?", (name,))

    def put_aside(self, name: str, body: bytes) -> None:
        """Keep what may be lost: beside SQLite in a file, and on a server where whoever takes over
        finds it.
        """
        if self._db.bodies_inside:
            self.put_file(ASIDE + name, body)
        else:
            write_whole(self.directory / name, body, mode=OWN_FILE)

    def drop_aside(self, name: str) -> None:
        """Forget it, at once."""
        if self._db.bodies_inside:
            with self.commit():
                self._db.execute("DELETE FROM files WHERE name=?", (ASIDE + name,))
        else:
            (self.directory / name).unlink(missing_ok=True)

    def add_round(self, opened: RoundRecord) -> None:
        """A round is announced."""
        values = (
            opened.round,
            opened.base,
            opened.base_round,
            json.dumps(opened.asked),
            int(opened.talks),
            self._wall(),
        )
        self._db.execute("INSERT INTO rounds VALUES (?, ?, ?, ?, ?, ?)", values)
        self._remember(opened)

    def add_uploads(self, uploads: Iterable[tuple[int, str, str, str, bytes | Span]]) -> None:
        """Uploads came: round, agent, hash, status and message, or where it lies already; of one
        that is only recorded the message is empty.
        """
        batch, at = list(uploads), self._wall()
        numbers = iter(self._put_bodies([upload[4] for upload in batch if upload[4]]))
        rows = [
            (round, agent, digest, next(numbers) if message else None, status, at)
            for round, agent, digest, status, message in batch
        ]
        self._db.executemany("INSERT INTO uploads VALUES (?, ?, ?, ?, ?, NULL, ?)", rows)

    def add_minutes(self, session: bytes, minutes: Iterable[Minute]) -> None:
        """A group goes on: letters, whose bytes lie with those of uploads, and marks."""
        batch = list(minutes)
        numbers = iter(self._put_bodies([minute.body for minute in batch if minute.body]))
        self.minutes.put(
            (session, minute.kind, minute.agent, next(numbers) if minute.body else None)
            for minute in batch
        )

    def _put_bodies(self, messages: Sequence[bytes | Span]) -> Sequence[int]:
        """Bytes to where they are kept, if they are not there; the number of each."""
        start = self._next_blob()
        numbers = range(start, start + len(messages))
        if self._segments is None:
            rows = zip(numbers, messages, strict=True)
            self._db.executemany("INSERT INTO blobs VALUES (?, ?)", rows)
            return numbers
        spans = iter(self._segments.add([m for m in messages if isinstance(m, bytes)]))
        placed = (next(spans) if isinstance(m, bytes) else m for m in messages)
        logged = [(n, s.file, s.start, s.length) for n, s in zip(numbers, placed, strict=True)]
        self._db.executemany("INSERT INTO logged VALUES (?, ?, ?, ?)", logged)
        return numbers

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
        """Numbers are shared by what lies in tables and what lies beside them."""
        tops = [self._db.execute(f"SELECT max({key}) FROM {table}") for key, table in NUMBERED]
        return max(rows[0][0] or 0 for rows in tops) + 1

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
            "INSERT INTO agents VALUES (?, ?, ?) "
            "ON CONFLICT (agent) DO UPDATE SET birth=excluded.birth, at=excluded.at",
            (agent, json.dumps(dict(birth)), self._wall()),
        )

    def drop_agents(self, agents: Iterable[str]) -> None:
        """Forget who these devices are; what they sent stays."""
        self._db.executemany("DELETE FROM agents WHERE agent=?", [(agent,) for agent in agents])

    def add_event(self, kind: str, round: int | None = None, **body: Any) -> None:
        """Something an operator may want to know later, as far as there is room."""
        self._db.execute(
            "INSERT INTO events (at, round, kind, body) VALUES (?, ?, ?, ?)",
            (self._wall(), round, kind, json.dumps(body)),
        )
        # Devices cause some of them, and where no round opens nothing else drops any.
        self._events += 1
        if self._events == 1 or self._events % (MOST_EVENTS // 100) == 0:
            sql = "DELETE FROM events WHERE id <= (SELECT max(id) FROM events) - ?"
            self._db.execute(sql, (MOST_EVENTS,))

    # upkeep

    def drop_gathered(self, but: Collection[bytes] = ()) -> None:
        """What groups of a ledger said, but of these sessions; their bytes go with them."""
        with self.commit():
            self.minutes.drop_gathered(but)
        if self._segments is not None:
            self._segments.close()
        self._drop_segments()

    def forget(self, keep: int) -> None:
        """Drop the bytes of all but the last `keep` rounds; hashes, cuts and who sent what stay."""
        with self.commit():
            newest = self._db.execute("SELECT coalesce(max(round), 0) FROM rounds")[0][0]
            # A round without its outcome needs all of its bytes, however few rounds are kept.
            settled = self._db.execute(
                "SELECT count(*) FROM cuts WHERE round=?1 AND (?1 IN (SELECT round FROM states) "
                "OR (SELECT talks FROM rounds WHERE round=?1) = 0)",
                (newest,),
            )[0][0]
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
        self._drop_segments()

    def _drop_segments(self) -> None:
        """Files that no row points into."""
        if self._segments is not None:
            live = self._db.execute("SELECT DISTINCT file FROM logged")
            self._segments.drop(but=[file for (file,) in live])

    def compact(self, keep: int) -> int:
        """As `forget`, and give the room back to the disk; how many bytes that was."""
        before = self.size()
        self.forget(keep)
        if self._segments is not None:
            with self.commit():
                self._gather()
            self._segments.drop(but=())
        self._db.reclaim()
        return before - self.size()

    def wipe(self) -> None:
        """Nothing of what was deleted stays beside the tables, either."""
        self._db.wiped("contributions", "counts", "files")

    def backup(self, target: str | Path) -> None:
        """A whole copy, taken while the journal is in use: in one file, or on a server."""
        copied(self._db, self._bodies(), target, _migrate)

    def _bodies(self) -> Iterator[tuple[int, bytes]]:
        """All that lies in files beside the tables."""
        for (blob,) in self._db.execute("SELECT blob FROM logged ORDER BY blob"):
            body = self.body(blob)
            if body is not None:
                yield blob, body

    def _gather(self) -> None:
        """Take messages that lie beside the tables into them."""
        for row in self._bodies():
            self._db.execute("INSERT INTO blobs VALUES (?, ?)", row)
        self._db.execute("DELETE FROM logged")

    def size(self) -> int:
        """Bytes on disk."""
        return self._db.size() + (0 if self._segments is None else self._segments.size())


def _migrate(database: Database) -> None:
    """Bring tables to this schema, one numbered step at a time."""
    have = database.schema()
    if have > SCHEMA:
        raise JournalError(
            f"the journal has schema {have}, this release knows {SCHEMA}", "use a newer release"
        )
    for version in range(max(have + 1, database.first_step), SCHEMA + 1):
        name = f"schema/{database.dialect}/v{version}.sql"
        script = resources.files("coordinator.journal").joinpath(name).read_text()
        database.step(version, script)


def _where(conditions: Sequence[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _locked(directory: Path, claim: WriteClaim) -> TextIO:
    while True:
        try:
            return lock(directory)
        except Locked as error:
            claim.wait(f"process {error.holder}", str(directory))
        except OSError as error:
            raise JournalError(f"{directory} cannot be used: {error.strerror}") from error


def _round(number: int, base: str, base_round: int, agents: str, talks: int) -> RoundRecord:
    return RoundRecord(number, base, base_round, tuple(json.loads(agents)), bool(talks))
