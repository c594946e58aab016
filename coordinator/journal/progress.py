"""What a journal keeps of rollouts: how each was meant and how far it is, every device's newest
report, and who ran what when.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from coordinator.journal.database import Database, first

ROLLOUTS = 100  # that are remembered
STEPS = 200_000  # of devices and operators, a line each


@dataclass(frozen=True)
class RolloutRecord:
    """A rollout as the journal has it; `terms` is the document that it began with."""

    number: int
    terms: Mapping[str, Any]
    phase: str
    stage: int  # the newest group that is open
    words: str
    at: float = 0.0


@dataclass(frozen=True)
class StepRecord:
    """Who did what; no agent: an operator, or the coordinator by itself."""

    rollout: int
    agent: str
    step: str
    words: str
    at: float = 0.0


class RolloutTables:
    """Three tables of a journal; what writes belongs inside its `commit`."""

    def __init__(self, db: Database, wall: Callable[[], float]) -> None:
        self._db, self._wall = db, wall

    def all(self) -> list[RolloutRecord]:
        """Every rollout, oldest first."""
        sql = "SELECT number, terms, phase, stage, words, at FROM rollouts ORDER BY number"
        return [RolloutRecord(n, json.loads(t), *rest) for n, t, *rest in self._db.execute(sql)]

    def newest(self) -> RolloutRecord | None:
        """The last that was begun."""
        sql = "SELECT number, terms, phase, stage, words, at FROM rollouts ORDER BY 1 DESC LIMIT 1"
        row = first(self._db.execute(sql))
        return None if row is None else RolloutRecord(row[0], json.loads(row[1]), *row[2:])

    def members(self, rollout: int) -> dict[str, dict[str, Any]]:
        """The newest report of each device."""
        sql = "SELECT agent, report FROM members WHERE rollout=?"
        return {agent: json.loads(text) for agent, text in self._db.execute(sql, (rollout,))}

    def steps(self, rollout: int | None = None, last: int = 1000) -> list[StepRecord]:
        """The newest steps, of one rollout or all, oldest first."""
        where, values = ("", ()) if rollout is None else ("WHERE rollout=?", (rollout,))
        sql = f"SELECT rollout, agent, step, words, at FROM steps {where} ORDER BY id DESC LIMIT ?"
        return [StepRecord(*row) for row in self._db.execute(sql, (*values, last))][::-1]

    # what is written, inside `commit`

    def put(self, record: RolloutRecord) -> None:
        """A rollout that begins, or goes on."""
        values = (record.number, json.dumps(dict(record.terms)), record.phase, record.stage)
        self._db.execute(
            "INSERT INTO rollouts VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (number) DO UPDATE SET terms=excluded.terms, phase=excluded.phase, "
            "stage=excluded.stage, words=excluded.words",
            (*values, record.words, self._wall()),
        )
        edge = (record.number - ROLLOUTS,)
        self._db.execute("DELETE FROM rollouts WHERE number <= ?", edge)
        self._db.execute("DELETE FROM members WHERE rollout <= ?", edge)

    def put_members(self, rollout: int, reports: Mapping[str, Mapping[str, Any]]) -> None:
        """In the place of what these devices reported before."""
        at = self._wall()
        rows = [(rollout, agent, json.dumps(dict(r)), at) for agent, r in reports.items()]
        self._db.executemany(
            "INSERT INTO members VALUES (?, ?, ?, ?) ON CONFLICT (rollout, agent) "
            "DO UPDATE SET report=excluded.report, at=excluded.at",
            rows,
        )

    def drop_agent(self, agent: str) -> None:
        """It left for good; what it ran is remembered."""
        self._db.execute("DELETE FROM members WHERE agent=?", (agent,))

    def add_steps(self, steps: list[StepRecord]) -> None:
        """Somebody did something."""
        at = self._wall()
        self._db.executemany(
            "INSERT INTO steps (rollout, agent, step, words, at) VALUES (?, ?, ?, ?, ?)",
            [(s.rollout, s.agent, s.step, s.words, at) for s in steps],
        )
        self._db.execute("DELETE FROM steps WHERE id <= (SELECT max(id) FROM steps) - ?", (STEPS,))
