"""What a coordinator and the processes that take uploads in for it say to each other: values only.

Both ends are ours, and the pipe between them is nobody else's: what a stranger sent passes here as
what was made of it, or as bytes that nobody looked into yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from coordinator.config import UploadLimits
from coordinator.journal.segments import Span
from coordinator.uploads.folding import Group
from protofleet.contract import Contract
from protofleet.mqtt.address import Address
from protofleet.mqtt.topics import Proof

ONE_NAME = "it has one connection a user, whatever its client id"


@dataclass(frozen=True)
class Members:
    """Whose signatures count, by name and raw key; `everyone`: who has none is refused."""

    keys: Mapping[str, bytes]
    everyone: bool


@dataclass(frozen=True)
class IngestJob:
    """What an ingester has to know, once, when it starts."""

    number: int
    address: Address
    fleet: str
    contract: Contract
    method: str
    settings: Mapping[str, Any]
    limits: UploadLimits
    folder: Path
    members: Members | None  # where signatures mean anything


@dataclass(frozen=True)
class OpenRound:
    """The round that uploads may be let in for; `serial` tells totals apart that are begun anew."""

    serial: int
    round: int  # 0: none, all is handed on
    base: str
    weight: int
    agreed: str  # the shapes that are agreed on, as the journal has them


class UploadRow(NamedTuple):
    """An upload that an ingester let in, folded and wrote down, as the journal is to know it."""

    agent: str
    round: int
    digest: str
    span: Span
    proof: Proof | None = None
    number: int = 0  # of the signature
    lane: int = 0


@dataclass(frozen=True)
class RowBatch:
    """Rows, and messages that are the coordinator's to deal with, by topic."""

    number: int
    serial: int
    rows: tuple[UploadRow, ...]
    others: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True)
class HeardBatch:
    """A batch, and whose it is."""

    ingester: int
    life: int
    batch: RowBatch


@dataclass(frozen=True)
class Taken:
    """The rows of a batch are in the journal, all but those in these places: they are to come as
    messages.
    """

    batch: int
    back: tuple[int, ...] = ()


@dataclass(frozen=True)
class Over:
    """All that came of a batch is said: the broker may forget its messages."""

    batch: int


@dataclass(frozen=True)
class Grant:
    """A number that a segment may have; nobody else has it."""

    segment: int


@dataclass(frozen=True)
class Begun:
    """A segment is written to; what was written before is in rows that were said."""

    segment: int


@dataclass(frozen=True)
class TotalsWanted:
    """The sums of this serial are to be said."""

    serial: int


@dataclass(frozen=True)
class Totals:
    """They are these."""

    serial: int
    groups: tuple[Group, ...]


@dataclass(frozen=True)
class Alive:
    """Nothing happened; whether the broker is there."""

    connected: bool


@dataclass(frozen=True)
class NoShares:
    """The broker gives this process no share, in its words."""

    words: str


@dataclass(frozen=True)
class Ended:
    """The process is no more."""

    words: str


Order = IngestJob | OpenRound | Members | Taken | Over | Grant | TotalsWanted
Answer = RowBatch | Begun | Totals | Alive | NoShares | Ended
