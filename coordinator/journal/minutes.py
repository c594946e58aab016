"""What a journal keeps of masked sums: for each group its terms, and its letters in their order.

There is no upload in it: what devices said are keys, sealed boxes, masked numbers and shares, and
of all of them together no more can be made than the total.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from coordinator.journal.database import Database, first


@dataclass(frozen=True)
class GroupRecord:
    """A group as it was called: for which round, the letter with its terms, and the shapes of rows
    that its layout takes.
    """

    session: bytes
    round: int
    reason: str  # why the round was closed
    agreement: bytes
    shapes: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Minute:
    """One letter, and whose; without bytes a mark."""

    kind: str
    agent: str = ""
    body: bytes = b""


class MinuteTables:
    """Two tables of a journal; what writes belongs inside its `commit`."""

    def __init__(self, db: Database, wall: Callable[[], float]) -> None:
        self._db, self._wall = db, wall

    def group(self, round: int) -> GroupRecord | None:
        """The group of a round."""
        return self._group("round", round)

    def of_session(self, session: bytes) -> GroupRecord | None:
        """The group of this session."""
        return self._group("session", session)

    def _group(self, column: str, key: int | bytes) -> GroupRecord | None:
        sql = f"SELECT session, round, reason, agreement, shapes FROM meetings WHERE {column}=?"
        row = first(self._db.execute(sql, (key,)))
        if row is None:
            return None
        session, round, reason, agreement, shapes = row
        read = {name: tuple(shape) for name, shape in json.loads(shapes).items()}
        return GroupRecord(bytes(session), round, reason, bytes(agreement), read)

    def rows(self, session: bytes) -> list[tuple[str, str, int | None]]:
        """Kind, agent and place of every letter, in their order."""
        sql = "SELECT kind, agent, blob FROM minutes WHERE session=? ORDER BY id"
        return [(kind, agent, blob) for kind, agent, blob in self._db.execute(sql, (session,))]

    def put_group(self, group: GroupRecord) -> None:
        """It is about to be called."""
        shapes = json.dumps(dict(group.shapes))
        values = (group.session, group.round, group.reason, group.agreement, shapes, self._wall())
        self._db.execute("INSERT INTO meetings VALUES (?, ?, ?, ?, ?, ?)", values)

    def drop_gathered(self, but: Collection[bytes]) -> None:
        """All groups of no round but these, and the places of what they said."""
        for (session,) in self._db.execute("SELECT session FROM meetings WHERE round=0"):
            if bytes(session) not in but:
                numbers = "SELECT blob FROM minutes WHERE session=?"
                for table, key in (("logged", "blob"), ("blobs", "id")):
                    self._db.execute(f"DELETE FROM {table} WHERE {key} IN ({numbers})", (session,))
                for table in ("minutes", "meetings"):
                    self._db.execute(f"DELETE FROM {table} WHERE session=?", (session,))

    def put(self, rows: Iterable[tuple[bytes, str, str, int | None]]) -> None:
        """Session, kind, agent and place."""
        self._db.executemany(
            "INSERT INTO minutes (session, kind, agent, blob) VALUES (?, ?, ?, ?)", rows
        )
