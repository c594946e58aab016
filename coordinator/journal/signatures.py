"""What a journal keeps of signatures: the highest number that each speaker used, and the proof of
every upload and contribution that was signed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from coordinator.journal.database import Database

PROOFS = 1_000_000  # that are kept: about 200 bytes each
# Of one device for round 0, to which it may speak as often as it likes: or it would push those of
# all others out. In other rounds one is let in.
OFFERS = 4096


@dataclass(frozen=True)
class ProofRecord:
    """Who signed what for which round (0: a contribution, counts, or classes); `digest` is the
    sha256 of the whole message. Of a large one `proof` is the signed descriptor.
    """

    agent: str
    round: int
    digest: str
    proof: bytes
    at: float = 0.0


class SignatureTables:
    """Two tables of a journal; what writes belongs inside its `commit`."""

    def __init__(self, db: Database, wall: Callable[[], float]) -> None:
        self._db, self._wall = db, wall

    def heard(self) -> dict[tuple[str, str], int]:
        """The highest number of each speaker, by place."""
        rows = self._db.execute("SELECT speaker, place, number FROM heard")
        return {(speaker, place): number for speaker, place, number in rows}

    def proofs(self, agent: str | None = None) -> list[ProofRecord]:
        """Everything that was signed and taken in, oldest first."""
        where, values = ("", ()) if agent is None else ("WHERE agent=?", (agent,))
        sql = f"SELECT agent, round, digest, proof, at FROM proofs {where} ORDER BY id"
        return [ProofRecord(*row) for row in self._db.execute(sql, values)]

    def put_heard(self, numbers: Mapping[tuple[str, str], int]) -> None:
        """These are the highest now."""
        rows = [(speaker, place, number) for (speaker, place), number in numbers.items()]
        self._db.executemany(
            "INSERT INTO heard VALUES (?, ?, ?) "
            "ON CONFLICT (speaker, place) DO UPDATE SET number=excluded.number",
            rows,
        )

    def put_proofs(self, proofs: list[ProofRecord]) -> None:
        """In the same commit as what they prove."""
        at = self._wall()
        self._db.executemany(
            "INSERT INTO proofs (agent, round, digest, proof, at) VALUES (?, ?, ?, ?, ?)",
            [(p.agent, p.round, p.digest, p.proof, at) for p in proofs],
        )
        for agent in {p.agent for p in proofs if not p.round}:
            self._db.execute(
                "DELETE FROM proofs WHERE agent=? AND round=0 AND id <= (SELECT id FROM proofs"
                " WHERE agent=? AND round=0 ORDER BY id DESC LIMIT 1 OFFSET ?)",
                (agent, agent, OFFERS),
            )
        self._db.execute(
            "DELETE FROM proofs WHERE id <= (SELECT max(id) FROM proofs) - ?", (PROOFS,)
        )
