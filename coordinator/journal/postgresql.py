"""A journal's tables on a PostgreSQL server, through psycopg."""

from __future__ import annotations

import os
import re
import secrets
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import count
from typing import Any

from coordinator.errors import JournalError, Superseded
from coordinator.journal.database import NAP, Row, WriteClaim, check
from protofleet.errors import UsageError

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.pq import TransactionStatus
except ImportError as missing:
    raise UsageError(
        "a journal in PostgreSQL needs psycopg", "pip install 'protofleet[postgres]'"
    ) from missing

# Theory of operation
#
# Who may write. The one whose session holds an advisory lock, of the schema that the tables lie in.
# A lock of that kind ends with its session, however that ends, and no transaction outlives its
# session: so there is no moment at which two could write. When a process dies, its kernel says so
# and the lock is free at once; when a machine does, nobody says anything, and the server finds out
# by itself within GONE seconds (keep-alives on its side, set by us).
#
# Who was thought dead. A session may be lost while its process lives: the line was cut, the server
# started anew, an operator took over. The process then connects again, and by then others may have
# written, with an epoch above its own. So whoever begins to write leaves a word of its own in
# `meta` (`holder`), and whoever comes back reads it:
#
#   lock          holder        what follows
#   free          ours          nobody was here: go on
#   free          another's     somebody was: `Superseded`, also where he has gone again
#   taken         ours          our own lost session has it: an error, and another try later
#   taken         another's     `Superseded`
#
# What is in memory goes back to what is committed by the same way as after a full disk
# (`coordinator.service.loop`): also when a COMMIT was lost on its way back, of which nobody knows
# whether it came to anything.
#
# A pooler that deals out sessions by the transaction takes the lock from under us: it must be told
# to pool by session, or passed by.
#
# A block is one transaction, and waits for the server's disk (`synchronous_commit`; where a server
# was told to wait for its replicas as well, it does). `autocommit` is on, as our blocks are opened
# by hand; a statement that fails outside of one leaves nothing behind.

GONE = 11  # seconds: 5, and three times 2
KEEPING = {"tcp_keepalives_idle": "5", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "3"}
# A server's own ideas of how long a session may last are meant for others.
ENDLESS = ("statement_timeout", "idle_session_timeout", "idle_in_transaction_session_timeout")
CONNECTING = 5  # seconds, where the address does not say
ENDING = 20  # looks at a lock whose holder's session was ended
PAGE = 500  # rows
LOCKS = 0x50464C54  # ours among a server's advisory locks

Session = psycopg.Connection[tuple[Any, ...]]
_PLACE = re.compile(r"\?(\d*)")


@lru_cache(maxsize=512)
def numbered(sql: str) -> bytes:
    """The statement with its values as PostgreSQL has them."""
    numbers = count(1)
    return _PLACE.sub(lambda place: f"${place[1] or next(numbers)}", sql).encode()


_OURS = "hashtext(current_schema()::text) & 2147483647"
_HOLDERS = (
    "FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' AND granted "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    f"AND classid = {LOCKS} AND objid::bigint = {_OURS}"
)


class PostgresDatabase:
    """See `coordinator.journal.database.Database`."""

    dialect = "postgresql"
    first_step = 10
    bodies_inside = True

    def __init__(self, address: str, claim: WriteClaim | None) -> None:
        check(address)
        self.address, self._writes = address, claim is not None
        self._word = secrets.token_hex(8)  # left in `meta` by whoever writes
        self._doing, self._locked_once, self._entered = "read", False, False
        self._db = self._connected() if claim is None else self._awaited(claim)
        self._locked_once = claim is not None

    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        try:
            done = self._session().execute(numbered(sql), _storable(values), binary=True)
            return done.fetchall() if done.description else []
        except psycopg.Error as error:
            raise self._in_words(error) from error

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        try:
            with self._session().cursor() as cursor:
                cursor.executemany(numbered(sql), [_storable(row) for row in rows])
        except psycopg.Error as error:
            raise self._in_words(error) from error

    def pages(self, sql: str) -> Iterator[list[Row]]:
        self.execute(f"DECLARE paging NO SCROLL CURSOR FOR {sql}")
        while page := self.execute(f"FETCH {PAGE} FROM paging"):
            yield page
        self.execute("CLOSE paging")

    def begin(self) -> None:
        session = self._session()  # here it may be a new one, inside a block it may not
        try:
            session.execute("BEGIN")
        except psycopg.Error as error:
            raise JournalError(f"the journal cannot be written: {_line(error)}") from error
        self._doing = "written"

    def commit(self) -> None:
        # After an error the server would take COMMIT for ROLLBACK, and call it success.
        if self._db.info.transaction_status is not TransactionStatus.INTRANS:
            raise JournalError("the journal cannot be written: its block failed")
        self.execute("COMMIT")
        self._doing = "read"

    def rollback(self) -> None:
        self._doing = "read"
        idle = TransactionStatus.IDLE, TransactionStatus.UNKNOWN  # unknown: the connection is gone
        if self._db.info.transaction_status not in idle:
            self.execute("ROLLBACK")

    def schema(self) -> int:
        if self.execute("SELECT to_regclass('meta')")[0][0] is None:
            return 0
        rows = self.execute("SELECT value FROM meta WHERE key = 'schema'")
        return int(rows[0][0]) if rows else 0

    def step(self, version: int, script: str) -> None:
        self.begin()
        try:
            self._db.execute(script.encode())
            self.execute(
                "INSERT INTO meta VALUES ('schema', ?) "
                "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                (str(version),),
            )
            self.commit()
        except psycopg.Error as error:
            self.rollback()
            raise self._in_words(error) from error

    def enter(self) -> None:
        self.begin()
        self.execute(
            "INSERT INTO meta VALUES ('holder', ?) "
            "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (self._word,),
        )
        self.commit()
        self._entered = True

    def field(self, column: str, key: str) -> str:
        # The server's own JSON refuses some of what devices may write, and the whole query with it.
        return f"""substring({column} from '"{key}": "([^"\\\\]*)"')"""

    def size(self) -> int:
        sizes = (
            "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class "
            "WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
        )
        return int(self.execute(sizes)[0][0])

    def overwrite(self) -> None:
        """What is deleted stays in its page until the table is written anew: see `wiped`."""

    def wiped(self, *tables: str) -> None:
        for table in tables:
            self.execute(f"VACUUM (FULL) {table}")

    def reclaim(self) -> None:
        for (table,) in self.execute(
            "SELECT relname::text FROM pg_class "
            "WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
        ):
            self.execute(f'VACUUM (FULL) "{table}"')

    def resume_numbers(self) -> None:
        numbering = (
            "SELECT table_name::text FROM information_schema.columns "
            "WHERE table_schema = current_schema() AND column_name = 'id' AND is_identity = 'YES'"
        )
        for (table,) in self.execute(numbering):
            self.execute(
                f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), "
                f"(SELECT coalesce(max(id), 0) + 1 FROM {table}), false)"
            )

    def close(self) -> None:
        self._db.close()

    # one session after the other

    def _session(self) -> Session:
        """The one that there is; where it was lost, another, if nobody wrote in between."""
        if not self._db.closed:
            return self._db
        if self._doing == "written":
            raise JournalError("the journal cannot be written: the connection to it was lost")
        self._db = self._connected()
        if self._locked_once:
            self._come_back()
        return self._db

    def _come_back(self) -> None:
        try:
            locked, holder = _lock(self._db), _holder(self._db)
            rows = self.execute("SELECT value FROM meta WHERE key = 'holder'")
            if self._entered and rows != [(self._word,)]:
                words = f"another coordinator writes this journal ({holder})"
                raise Superseded(words, "stop it first, or let it go on")
            if not locked:
                raise JournalError(f"the journal cannot be written: {holder} has it still")
        except psycopg.Error as error:
            self._db.close()
            raise self._in_words(error) from error
        except BaseException:
            self._db.close()
            raise

    def _awaited(self, claim: WriteClaim) -> Session:
        """A session that has the lock. Who stands by outlives the server's lives, too."""
        session: Session | None = None
        for look in count():
            ends = claim.take_over and look < ENDING
            try:
                if session is None or session.closed:
                    session = self._connected()
                holder = self._look(session, end=ends)
                if not holder:
                    return session
            except JournalError as error:
                if claim.standby is None:
                    raise
                holder = error.words
            try:
                if ends:
                    time.sleep(NAP)
                else:
                    claim.wait(holder, self.address)
            except BaseException:
                if session is not None:
                    session.close()
                raise
        raise AssertionError("a count has no end")

    def _look(self, session: Session, *, end: bool) -> str:
        """Who else has the lock; empty if it is ours now."""
        try:
            if _lock(session):
                return ""
            holder = _holder(session)
            if end:
                session.execute(f"SELECT pg_terminate_backend(pid) {_HOLDERS}".encode())
            return holder
        except psycopg.Error as error:
            raise self._in_words(error) from error

    def _connected(self) -> Session:
        chosen = conninfo_to_dict(self.address)
        ours: dict[str, Any] = {
            "connect_timeout": CONNECTING,
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "tcp_user_timeout": GONE * 1000,
            "application_name": f"{socket.gethostname()[:40]}, process {os.getpid()}",
            "client_encoding": "utf8",
        }
        try:
            session: Session = psycopg.Connection.connect(
                self.address,
                autocommit=True,
                cursor_factory=psycopg.RawCursor,
                **{name: value for name, value in ours.items() if name not in chosen},
            )
            self._prepare(session)
        except psycopg.Error as error:
            raise JournalError(
                f"the journal cannot be reached: {_line(error)}",
                "is its server running, and its address right?",
            ) from error
        return session

    def _prepare(self, session: Session) -> None:
        if session.execute("SELECT current_schema()").fetchone() == (None,):
            session.close()
            raise JournalError(f"{self.address}: its search_path names no schema that is there")
        for name in ENDLESS:
            session.execute(
                "SELECT set_config(name, '0', false) FROM pg_settings WHERE name = $1", (name,)
            )
        for name, value in KEEPING.items():
            session.execute("SELECT set_config($1, $2, false)", (name, value))
        if not self._writes:
            session.execute("SET default_transaction_read_only = on")
        elif session.execute("SHOW synchronous_commit").fetchone() == ("off",):
            session.execute("SET synchronous_commit = on")

    def _in_words(self, error: psycopg.Error) -> JournalError:
        return JournalError(f"the journal cannot be {self._doing}: {_line(error)}")


def _lock(session: Session) -> bool:
    """Whether this session has it now."""
    row = session.execute(f"SELECT pg_try_advisory_lock({LOCKS}, {_OURS})".encode()).fetchone()
    return row == (True,)


def _holder(session: Session) -> str:
    """Who has the lock, in words."""
    row = session.execute(f"SELECT application_name {_HOLDERS}".encode()).fetchone()
    return "somebody" if row is None else str(row[0])


def _storable(values: Sequence[Any]) -> Sequence[Any]:
    """Text without NUL, which the server takes nowhere: devices' words may have any character."""
    if any(isinstance(value, str) and "\0" in value for value in values):
        values = [v.replace("\0", "\ufffd") if isinstance(v, str) else v for v in values]
    return values


def _line(error: psycopg.Error) -> str:
    return " ".join(str(error).split())
