"""What a ledger's devices add up under masks: what their contributions and counts are as sums, how
much room those have, and a group's total as it is kept.
"""

# Theory of operation
#
# A plain contribution names its classes, as every device has others. A masked sum has one layout
# for all, so rows are of the classes that the contract names, by their place there; a device with
# any other class cannot take part. Of counts there are no classes at all.
#
# The purpose of a group says which of the two is added up, under which extractor or against which
# total; a device answers to a purpose that it has said it is ready for, and to no other.
#
# What is kept of a group is its total (`GroupTotal`), which takes the place of the contributions of
# its members in a ledger: it has samples of classes like one, and can be added and taken away like
# one. It cannot be taken apart.

from __future__ import annotations

from dataclasses import dataclass

from protofleet import wire
from protofleet.contract import Contract
from protofleet.errors import FusionError, SettingError, WireError
from protofleet.exchange.contributed import Contributed, CountReport, Withdrawal
from protofleet.exchange.published import document_part, plain_of
from protofleet.masking.layout import Layout
from protofleet.settings.fields import from_plain
from protofleet.statistics import contribution, counts
from protofleet.statistics.contribution import MEANS, Grid
from protofleet.values.prototypes import Tensors
from protofleet.values.sums import Partial, Sum, as_tensors, from_tensors
from protofleet.wire import Envelope

GROUP = "(group)"  # in an agent's place; no device may have such a name
GATHER = "gather"  # as the envelope's method
_TOTAL, _ABOUT = "total", "about"
GRID = Grid()


@dataclass(frozen=True)
class GroupClaim:
    """Whose total it is, of what."""

    purpose: str
    session: str
    members: tuple[str, ...]
    classes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class GroupTotal:
    """A group's total as it was kept; keys of means are places among the claim's class names."""

    claim: GroupClaim
    partial: Partial
    digest: str

    @property
    def samples(self) -> dict[str, int]:
        """By class; those that nobody has are not there."""
        means = self.partial.get(MEANS)
        if not isinstance(means, Sum):
            return {}
        pairs = zip(means.keys.tolist(), means.weights.tolist(), strict=True)
        return {self.claim.classes[key]: int(weight) for key, weight in pairs}


def contributing(lineage: str) -> str:
    """The purpose of adding up contributions."""
    return f"contributions, {lineage}"


def counting(total: str) -> str:
    """The purpose of adding up counts."""
    return f"counts, {total}"


def layout(purpose: str, contract: Contract, width: int, devices: int) -> Layout:
    """The numbers of a group for this purpose."""
    if contract.masks is None:
        raise FusionError("the fleet's contract says nothing of masked sums")
    rooms = counts.rooms()
    if purpose.startswith(contributing("")):
        ceilings = contract.masks.ceilings(devices)
        rooms = contribution.rooms(GRID, contract.n_classes, width, ceilings)
    return Layout.shaped(rooms, {}, devices)


def sums_of(message: Contributed | CountReport | Withdrawal, classes: tuple[str, ...]) -> Partial:
    """What a device adds; its rows are of these classes."""
    if isinstance(message, Withdrawal):
        raise FusionError("nothing is no part of a masked sum: the next one is made without it")
    if isinstance(message, CountReport):
        return counts.fold(message.counts)
    unknown = [name for name in message.claim.classes if name not in classes]
    if unknown:
        words = f"classes that the fleet did not agree on: {', '.join(unknown[:5])}"
        raise FusionError(words, "[contract] classes of the coordinator names them all")
    partial = contribution.fold(message.contribution, GRID)
    means = partial[MEANS]
    assert isinstance(means, Sum)
    places = [classes.index(message.claim.classes[key]) for key in means.keys.tolist()]
    return {**partial, MEANS: means.keyed(places)}


def write(claim: GroupClaim, partial: Partial, fleet: str, run: str) -> bytes:
    """As a journal keeps it."""
    envelope = Envelope("enrol", fleet, run, agent=GROUP, method=GATHER)
    return wire.encode(envelope, {_TOTAL: as_tensors(partial), _ABOUT: document_part(claim)})


def read(payload: bytes) -> GroupTotal:
    """And back, or `WireError`."""
    message = wire.decode(payload)
    if message.envelope.t != "enrol" or message.envelope.method != GATHER:
        raise WireError("a group's total is due")
    parts = message.body
    whole = parts.get(_TOTAL)
    if not isinstance(whole, Tensors):
        raise WireError("enrol.parts.total: sums are due")
    try:
        claim = from_plain(GroupClaim, plain_of(parts.get(_ABOUT), "enrol.parts.about"), "about")
        return GroupTotal(claim, from_tensors(whole), message.digest)
    except (FusionError, SettingError, KeyError) as error:
        raise WireError(f"enrol.parts: {error}") from None
