"""What a journal holds of a round: how it was opened, what came, where it was cut."""

from __future__ import annotations

from dataclasses import dataclass

from protofleet.wire.codes import UploadStatus

# As plain strings, as they are compared and written for every upload: SQLite and dictionaries take
# a member of an enumeration the long way, a microsecond each time.
ACCEPTED, HELD, LATE = (
    status.value for status in (UploadStatus.ACCEPTED, UploadStatus.HELD, UploadStatus.LATE)
)


@dataclass(frozen=True)
class RoundRecord:
    """A round as it was announced. `base_round` is the round its state came out of."""

    round: int
    base: str
    base_round: int
    asked: tuple[str, ...]
    talks: bool


@dataclass(frozen=True)
class UploadRecord:
    """An upload as it is remembered: the hash of its body, where its bytes are, and the round it
    was fused in.
    """

    round: int
    agent: str
    digest: str
    blob: int | None
    status: str
    cut: int | None


@dataclass(frozen=True)
class CutRecord:
    """Where a round was cut: which uploads are in it, as (round, agent, weight). `failed` says why
    nothing could be fused of them; empty for a cut that has a state of its own, or has none yet.
    """

    round: int
    reason: str
    counted: tuple[tuple[int, str, int], ...]
    failed: str = ""
