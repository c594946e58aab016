"""Signatures at the coordinator: what it says goes out under the fleet's key, what comes in is held
to its device's.

A word that does not hold is one line in the log, at most LOGGED of a kind, and counted; nobody is
answered.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from coordinator.members.office import Office
from coordinator.members.roster import MemberKeys
from protofleet.errors import TrustError
from protofleet.mqtt.topics import TopicParts
from protofleet.trust import sealing
from protofleet.trust.sealing import Gate, Signer
from protofleet.trust.sequence import DAEMON, WILL, Numbers, Sequence
from protofleet.util.logs import Log

if TYPE_CHECKING:
    from collections.abc import Callable

# Chunks are bound by the digest in what announced them, the others carry a signature of their own.
UNSEALED = frozenset(
    {
        "shared_chunk",
        "own_chunk",
        "upload_chunk",
        "ask",
        "answer",
        "renewal",
        "certificate",
        "keys",
    }
)
LOGGED = 20  # lines of one kind
FOLDER = "coordinator"  # below `trust/`: its numbers


class Seals:
    """One life's."""

    def __init__(
        self, office: Office, numbers: Numbers, log: Log, *, everyone: bool, folder: Path
    ) -> None:
        self.office, self.numbers, self._log = office, numbers, log
        self.roster = MemberKeys(office, everyone=everyone)
        self.gate = Gate(self.roster, numbers)
        self._sequences = {lane: Sequence(folder / FOLDER, lane) for lane in (DAEMON, WILL)}
        self._signers = self._of_key()
        self.refused: dict[str, int] = {}

    def close(self) -> None:
        """Another life may go on with the numbers."""
        for sequence in self._sequences.values():
            sequence.close()

    def refresh(self) -> None:
        """A command changed the registry, or the fleet's key."""
        self.roster.refresh()
        self._signers = self._of_key()

    def seal(self, topic: str, payload: bytes) -> bytes:
        """As it goes out. What takes a retained message back is no word."""
        if not payload or sealing.is_sealed(payload):
            return payload
        return self._signers[DAEMON].seal(topic, payload)

    def will(self, topic: str, payload: bytes) -> bytes:
        """As the broker says it for us, once."""
        return self._signers[WILL].seal(topic, payload)

    def open(self, place: TopicParts, topic: str, payload: bytes) -> tuple[TopicParts, bytes]:
        """The message, and its place with what proves it; `TrustError` if it is nobody's."""
        if place.kind in UNSEALED or not payload:
            return place, payload
        message, proof = self.gate.open(place.agent or "", topic, place.kind, payload)
        return (place._replace(proof=proof) if proof else place), message

    def refuse(self, topic: str, error: TrustError) -> None:
        """One line."""
        kind = error.words.partition(":")[0]
        self.refused[kind] = self.refused.get(kind, 0) + 1
        if self.refused[kind] <= LOGGED:
            self._log.warning(f"nobody stands for it: {error}", topic=topic)

    def _of_key(self) -> dict[int, Signer]:
        key = self.office.key
        return {lane: Signer(key, sequence) for lane, sequence in self._sequences.items()}


def of_retained(office: Office | None, topic: str) -> Callable[[bytes], bytes | None]:
    """How a coordinator that does not serve yet reads the word of the one before."""
    if office is None:
        return lambda payload: payload
    gate = Gate(MemberKeys(office, everyone=True), Numbers())

    def opened(payload: bytes) -> bytes | None:
        try:
            return gate.open("", topic, "coordinator_state", payload).message
        except TrustError:
            return None

    return opened
