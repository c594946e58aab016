"""What goes between devices and a ledger: a contribution, the total to count against, and the
counts. One message each; what devices send is of type `enrol`, and the same bytes for the same
samples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from protofleet import wire
from protofleet.errors import FusionError, SettingError, WireError
from protofleet.exchange import learned
from protofleet.exchange.published import document_part, plain_of
from protofleet.settings.fields import from_plain
from protofleet.statistics import confusion, contribution, counts
from protofleet.statistics.closed_form import Moments
from protofleet.statistics.contribution import Contribution
from protofleet.statistics.counts import Counts
from protofleet.values.prototypes import Parts, Prototypes
from protofleet.wire import Envelope

T = TypeVar("T")

CONTRIBUTE, COUNT, WITHDRAW = "contribute", "count", "withdraw"  # as the envelope's method
METHODS = (CONTRIBUTE, COUNT, WITHDRAW)
_CLAIM = "about"


@dataclass(frozen=True)
class Claim:
    """Under which extractor, of which classes by name, and which of a device's contributions it is:
    its own samples (no source), or a class that it enrolled. Of counts: against which total.
    """

    lineage: str
    classes: tuple[str, ...] = ()
    source: str = ""
    total: str = ""

    def __post_init__(self) -> None:
        if not self.lineage or len(set(self.classes)) != len(self.classes) or "" in self.classes:
            raise SettingError("a lineage is due, and class names that differ")


@dataclass(frozen=True, eq=False)
class Contributed:
    """A contribution as it came; ids in it are places among the claim's class names."""

    claim: Claim
    contribution: Contribution
    envelope: Envelope
    digest: str

    def evened(self) -> bytes:
        """The message of the same without its spread."""
        return write_contribution(self.claim, self.contribution.even(), self.envelope)


@dataclass(frozen=True, eq=False)
class CountReport:
    """Counts as they came."""

    claim: Claim
    counts: Counts
    envelope: Envelope
    digest: str


@dataclass(frozen=True, eq=False)
class Withdrawal:
    """A device takes back what it contributed, all of it, and has nothing to say in its place."""

    claim: Claim
    envelope: Envelope
    digest: str


def write_contribution(claim: Claim, own: Contribution, envelope: Envelope) -> bytes:
    """The message; half precision is no loss, as means and the rest lie on grids it holds."""
    parts = {**contribution.parts_of(own), _CLAIM: document_part(claim)}
    return wire.encode(envelope, parts, "half", {contribution.SCATTER: "float32"})


def write_counts(claim: Claim, own: Counts, envelope: Envelope) -> bytes:
    """The message."""
    parts = {**counts.parts_of(own), **confusion.parts_of(own.confused)}
    return wire.encode(envelope, {**parts, _CLAIM: document_part(claim)}, "float32")


def write_withdrawal(claim: Claim, envelope: Envelope) -> bytes:
    """The message."""
    return wire.encode(envelope, {_CLAIM: document_part(claim)}, "float32")


def read(payload: bytes) -> Contributed | CountReport | Withdrawal:
    """One of these, checked, or `WireError` and nothing else."""
    message = wire.decode(payload)
    if message.envelope.t != "enrol":
        raise WireError(f"a message of type enrol is due, not {message.envelope.t}")
    parts = dict(message.body)
    try:
        claim = from_plain(Claim, plain_of(parts.pop(_CLAIM, None), "enrol.parts.about"), "about")
        if message.envelope.method == COUNT:
            own = counts.from_parts(parts)
            own = replace(own, confused=confusion.from_parts(parts, own.samples))
            return CountReport(claim, own, message.envelope, message.digest)
        if message.envelope.method == WITHDRAW:
            if parts or claim.classes or claim.source:
                raise WireError("enrol.parts: a withdrawal says nothing of classes")
            return Withdrawal(claim, message.envelope, message.digest)
        if message.envelope.method != CONTRIBUTE:
            raise WireError("enrol.method: contribute, count or withdraw is due")
        shares = contribution.from_parts(parts)
        if shares.means.classes.tolist() != list(range(len(claim.classes))):
            raise WireError("enrol.parts: a mean of every class that is named is due")
        return Contributed(claim, shares, message.envelope, message.digest)
    except (FusionError, SettingError) as error:
        raise WireError(f"enrol.parts: {error.words}") from None


def write_total(claim: Claim, of: Parts, envelope: Envelope) -> bytes:
    """What devices count against: the total's means and scatter, as `learned` has them."""
    parts = {learned.MEANS: of[learned.MEANS], learned.WITHIN: of[learned.WITHIN]}
    return wire.encode(
        envelope, {**parts, _CLAIM: document_part(claim)}, "float32", {learned.WITHIN: "half"}
    )


def read_total(payload: bytes, width: int = 0) -> tuple[Claim, Moments]:
    """The same, or `WireError`; of features of this width, where that is said: before there is a
    matrix of theirs.
    """
    return _of_total(payload, learned.moments, width)


def read_spread(payload: bytes) -> tuple[Claim, Prototypes, NDArray[np.float64]]:
    """Of the same as much as takes little memory: class means, and each feature's variance."""
    claim, (means, variances) = _of_total(payload, learned.spread)
    return claim, means, variances


def _of_total(payload: bytes, reading: Callable[[Parts], T], width: int = 0) -> tuple[Claim, T]:
    message = wire.decode(payload)
    if message.envelope.t != "global":
        raise WireError(f"a message of type global is due, not {message.envelope.t}")
    parts = dict(message.body)
    where, means = "global.parts.about", parts.get(learned.MEANS)
    if width and isinstance(means, Prototypes) and means.dim != width:
        raise WireError(f"global.parts: {means.dim} numbers a mean where {width} are due")
    try:
        claim = from_plain(Claim, plain_of(parts.pop(_CLAIM, None), where), "about")
        return claim, reading(parts)
    except (FusionError, SettingError) as error:
        raise WireError(f"global.parts: {error.words}") from None
