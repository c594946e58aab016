"""What a ledger must not lose: the newest contribution a device and source, what devices counted,
and the hashes of what came of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from coordinator.journal.database import Database, first

VERSIONS = 1000  # hashes that are remembered
EVENTS = 10_000  # of no round, which nothing else would ever drop


@dataclass(frozen=True)
class ContributionRecord:
    """Whose a contribution is, and the hash of its body."""

    agent: str
    source: str
    digest: str


@dataclass(frozen=True)
class CountsRecord:
    """What a device counted, against which total."""

    agent: str
    total: str
    digest: str
    body: bytes


@dataclass(frozen=True)
class VersionRecord:
    """A state that was published: of which total, after how many changes to these tables."""

    version: int
    lineage: str
    total: str
    samples: int  # behind the total
    changes: int
    sha256: str


class LedgerTables:
    """Three tables of a journal; what writes belongs inside its `commit`."""

    def __init__(self, db: Database, wall: Callable[[], float]) -> None:
        self._db, self._wall = db, wall

    def contributions(self, lineage: str) -> list[ContributionRecord]:
        """All of a lineage, without their bytes."""
        sql = "SELECT agent, source, digest FROM contributions WHERE lineage=? ORDER BY 1, 2"
        return [ContributionRecord(*row) for row in self._db.execute(sql, (lineage,))]

    def contribution(self, lineage: str, agent: str, source: str) -> bytes | None:
        """The message as it came."""
        sql = "SELECT body FROM contributions WHERE lineage=? AND agent=? AND source=?"
        row = first(self._db.execute(sql, (lineage, agent, source)))
        return None if row is None else bytes(row[0])

    def bodies(self) -> Iterator[tuple[str, bytes]]:
        """Every contribution, with its device."""
        yield from self._bodies("contributions", "agent, source")

    def counted(self) -> Iterator[tuple[str, bytes]]:
        """Everything that was counted, with its device."""
        yield from self._bodies("counts", "agent")

    def _bodies(self, table: str, order: str) -> Iterator[tuple[str, bytes]]:
        """One at a time: all of them together may be larger than memory."""
        for (number,) in self._db.execute(f"SELECT id FROM {table} ORDER BY {order}"):
            sql = f"SELECT agent, body FROM {table} WHERE id=?"
            for agent, body in self._db.execute(sql, (number,)):
                yield agent, bytes(body)

    def counts(self, lineage: str) -> list[CountsRecord]:
        """What devices counted, in order of their names."""
        sql = "SELECT agent, total, digest, body FROM counts WHERE lineage=? ORDER BY 1"
        return [CountsRecord(*row) for row in self._db.execute(sql, (lineage,))]

    @property
    def changes(self) -> int:
        """How often the tables of contributions and counts were written to."""
        row = first(self._db.execute("SELECT value FROM meta WHERE key='changes'"))
        return 0 if row is None else int(row[0])

    def versions(self) -> list[VersionRecord]:
        """The states that were published, oldest first."""
        sql = "SELECT version, lineage, total, samples, changes, sha256 FROM versions ORDER BY 1"
        return [VersionRecord(*row) for row in self._db.execute(sql)]

    def newest(self) -> VersionRecord | None:
        """The last that was published."""
        sql = (
            "SELECT version, lineage, total, samples, changes, sha256 FROM versions "
            "ORDER BY version DESC LIMIT 1"
        )
        row = first(self._db.execute(sql))
        return None if row is None else VersionRecord(*row)

    def newest_at(self) -> float | None:
        """When that was, by the wall's clock."""
        sql = "SELECT at FROM versions ORDER BY version DESC LIMIT 1"
        row = first(self._db.execute(sql))
        return None if row is None else float(row[0])

    # what is written, inside `commit`

    def put_contribution(
        self, lineage: str, of: ContributionRecord, body: bytes, *, wipe: bool = False
    ) -> None:
        """In the place of the one before; `wipe`: of that nothing stays in the file."""
        if wipe:
            self._db.overwrite()
        self._db.execute(
            "INSERT INTO contributions (lineage, agent, source, digest, body, at) "
            "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (lineage, agent, source) "
            "DO UPDATE SET digest=excluded.digest, body=excluded.body, at=excluded.at",
            (lineage, of.agent, of.source, of.digest, body, self._wall()),
        )
        self._changed()

    def drop_contribution(
        self, lineage: str, agent: str, source: str, *, wipe: bool = False
    ) -> None:
        """As if it had never come; `wipe`: nothing of it stays in the file, either."""
        if wipe:
            self._db.overwrite()
        where = "WHERE lineage=? AND agent=? AND source=?"
        self._db.execute(f"DELETE FROM contributions {where}", (lineage, agent, source))
        self._changed()

    def drop_agent(self, agent: str) -> None:
        """All that a device contributed, under whatever extractor."""
        self._db.overwrite()
        self._db.execute("DELETE FROM contributions WHERE agent=?", (agent,))
        self._changed()

    def drop_lineages(self, but: Collection[str]) -> None:
        """What can never be gone back to."""
        for table in ("contributions", "counts"):
            for (lineage,) in self._db.execute(f"SELECT DISTINCT lineage FROM {table}"):
                if lineage not in but:
                    self._db.execute(f"DELETE FROM {table} WHERE lineage=?", (lineage,))

    def put_counts(self, lineage: str, of: CountsRecord) -> None:
        """In the place of what the device counted before."""
        self._db.execute(
            "INSERT INTO counts (lineage, agent, total, digest, body, at) "
            "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (lineage, agent) DO UPDATE SET "
            "total=excluded.total, digest=excluded.digest, body=excluded.body, at=excluded.at",
            (lineage, of.agent, of.total, of.digest, of.body, self._wall()),
        )
        self._changed()

    def drop_counts_but(self, lineage: str, total: str) -> None:
        """Those against another total: the first against this one are about to be written."""
        self._db.execute("DELETE FROM counts WHERE lineage=? AND total<>?", (lineage, total))

    def drop_counts(self) -> None:
        """All of them: somebody is taken away from what they were counted against."""
        self._db.execute("DELETE FROM counts")
        self._changed()

    def put_version(self, of: VersionRecord) -> None:
        """A state is about to be published."""
        values = (of.version, of.lineage, of.total, of.samples, of.changes, of.sha256)
        self._db.execute(
            "INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (version) DO UPDATE SET "
            "lineage=excluded.lineage, total=excluded.total, samples=excluded.samples, "
            "changes=excluded.changes, sha256=excluded.sha256, at=excluded.at",
            (*values, self._wall()),
        )
        self._db.execute("DELETE FROM versions WHERE version <= ?", (of.version - VERSIONS,))
        self._db.execute(
            "DELETE FROM events WHERE round IS NULL AND id <= (SELECT max(id) FROM events) - ?",
            (EVENTS,),
        )

    def _changed(self) -> None:
        self._db.execute(
            "INSERT INTO meta VALUES ('changes', '1') "
            "ON CONFLICT (key) DO UPDATE SET "
            "value=CAST(CAST(meta.value AS INTEGER) + 1 AS TEXT)"
        )
