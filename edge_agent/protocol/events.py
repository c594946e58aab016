"""What can happen to a device: what `edge_agent.protocol.machine` takes in, plain values all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from protofleet.exchange.lots import Lots
from protofleet.masking.letters import Letter
from protofleet.wire.codes import Scope

STILL = "fleet"  # the method whose extractor is the fleet's own bundle
Ranges = tuple[tuple[int, int], ...]  # first and last chunk of each run, both counted in


@dataclass(frozen=True)
class RoundSpec:
    """What a fleet's announcement says about training: the contract and the method's settings as
    plain documents.
    """

    run: str
    method: str
    contract: Mapping[str, Any]
    hyper: Mapping[str, Any]

    @property
    def budget(self) -> bool:
        """Whether what is published of this run is bounded: nothing else is said of samples."""
        return self.contract.get("budget") is not None

    @property
    def by_features(self) -> bool:
        """Whether a round is answered by what is seen through the fleet's bundle."""
        return self.budget and self.method == STILL


@dataclass(frozen=True)
class LinkUp:
    """The broker took us in."""


@dataclass(frozen=True)
class LinkDown:
    """The broker is gone."""


@dataclass(frozen=True)
class TimePassed:
    """Time went by."""


@dataclass(frozen=True)
class Coordinator:
    """What the coordinator says of itself (or its last will of it)."""

    run: str
    epoch: int
    online: bool
    asynchronous: bool = False
    boot: str = ""
    budget: bool = False


@dataclass(frozen=True)
class Announced:
    """The round as it stands."""

    run: str
    epoch: int
    round: int
    phase: str
    participants: tuple[str, ...] | None
    base_round: int
    base: str
    own: bool
    spec: RoundSpec
    lots: Lots | None = None

    def asks(self, agent: str) -> bool:
        """Whether a device takes part: all do, or it is named, or by its lot."""
        if self.participants is None or agent in self.participants:
            return True
        return self.lots is not None and self.lots.ask(agent)


@dataclass(frozen=True)
class Shared:
    """A shared state arrived and is held."""

    run: str
    epoch: int
    round: int
    base: str


@dataclass(frozen=True)
class Own:
    """This device's own part of a state arrived and is held."""

    run: str
    epoch: int
    round: int
    base: str


@dataclass(frozen=True)
class Called:
    """A word of a group for a masked sum."""

    run: str
    epoch: int
    round: int
    word: Letter


@dataclass(frozen=True)
class Masked:
    """There is something new to be said in a masked sum, and it is in the store."""

    run: str
    round: int


@dataclass(frozen=True)
class Receipt:
    """The coordinator's answer to an upload."""

    run: str
    epoch: int
    round: int
    status: str
    reason: str = ""
    words: str = ""
    digest: str = ""
    missing: Ranges = ()


@dataclass(frozen=True)
class Opened:
    """How far this device is in a run, from its store."""

    run: str
    trained: int
    trained_on: int
    waiting: tuple[int, ...]


@dataclass(frozen=True)
class Requeued:
    """An upload that had a receipt waits again."""

    run: str
    round: int


@dataclass(frozen=True)
class Trained:
    """A round's training is lasting, and its upload in the outbox."""

    run: str
    round: int
    base_round: int


@dataclass(frozen=True)
class Failed:
    """Training came to nothing. `scope`: worth another try, of no use this round, or of no use on
    this device.
    """

    run: str
    round: int
    words: str
    scope: Scope


@dataclass(frozen=True)
class Evaluated:
    """A state was measured, or could not be."""


@dataclass(frozen=True)
class OwnerLimits:
    """What the device's owner allows right now: `refusal` says why it may not train."""

    refusal: str = ""
    may_send: bool = True
    disk_full: bool = False


@dataclass(frozen=True)
class BundleReady:
    """Whether the fleet's bundle is here, and passed its test."""

    here: bool


@dataclass(frozen=True)
class NewSamples:
    """The data changed."""


Event = (
    LinkUp
    | LinkDown
    | TimePassed
    | Coordinator
    | Announced
    | Shared
    | Own
    | Called
    | Masked
    | Receipt
    | Opened
    | Requeued
    | Trained
    | Failed
    | Evaluated
    | OwnerLimits
    | BundleReady
    | NewSamples
)
