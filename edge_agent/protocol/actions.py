"""What a device can be made to do: what `edge_agent.protocol.machine` hands out, plain values
all.
"""

from __future__ import annotations

from dataclasses import dataclass

from edge_agent.protocol.events import Ranges, RoundSpec
from protofleet.masking.letters import Letter


@dataclass(frozen=True)
class Birth:
    """Say that we are here."""

    run: str
    epoch: int


@dataclass(frozen=True)
class OpenRun:
    """Look up in the store how far this device is in a run, and answer with `Opened`."""

    run: str
    epoch: int


@dataclass(frozen=True)
class Train:
    """Train a round on the states that are held."""

    run: str
    round: int
    base_round: int
    base: str
    own: bool
    evaluate: bool
    spec: RoundSpec


@dataclass(frozen=True)
class Evaluate:
    """Measure the states that are held."""

    run: str
    round: int
    base_round: int
    base: str
    own: bool
    spec: RoundSpec


@dataclass(frozen=True)
class Send:
    """Deliver an upload from the outbox."""

    run: str
    round: int
    epoch: int


@dataclass(frozen=True)
class SendChunks:
    """Deliver these chunks of a large upload."""

    run: str
    round: int
    digest: str
    missing: Ranges


@dataclass(frozen=True)
class Mask:
    """Answer a word of a group for a masked sum, with `Masked` if there is anything to say."""

    run: str
    round: int
    word: Letter


@dataclass(frozen=True)
class Settle:
    """Write a receipt down."""

    run: str
    round: int
    status: str
    reason: str
    words: str
    epoch: int


@dataclass(frozen=True)
class Requeue:
    """Put an upload that had a receipt back among those that wait, and answer with `Requeued`
    if its bytes are here.
    """

    run: str
    round: int


@dataclass(frozen=True)
class Report:
    """Tell the coordinator why this round is not trained."""

    run: str
    round: int
    refused: str


Action = Birth | OpenRun | Train | Evaluate | Send | SendChunks | Mask | Settle | Requeue | Report
