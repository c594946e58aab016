"""What a site says upward in its devices' place: the exact sum of all that they contributed, and of
what they counted. One message each, the same bytes for the same sums.
"""

# Theory of operation
#
# A site's coordinator is one member of the fleet above it. It does not pass its devices' messages
# on; it says what they come to, in whole numbers, so that sums of sites are the sums of their
# devices, to the bit and through any number of sites. Each message takes the place of the site's
# earlier one. So a device that contributes anew, takes back or is forgotten there is so above with
# the site's next word, and nobody need remember what was said before.
#
#   relay          rows of means and scatter, by class and bucket; who contributed; how many of them
#                  have each class
#   relay-count    counts by bucket, against one total; who counted
#   withdraw       nobody of the site has anything to say any more (`contributed.Withdrawal`)
#
# Names of devices are said for what is drawn by name: who counts, and which bucket a device is in.
# A bucket with rows and no device of the site in it is refused.
#
# What is read is held to what sums are (`protofleet.values.limbs`), and to each other. What numbers
# may be in them is said where they are let in.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from protofleet import wire
from protofleet.errors import FusionError, SettingError, WireError
from protofleet.exchange.contributed import Claim
from protofleet.exchange.published import document_part, plain_of
from protofleet.settings.fields import from_plain
from protofleet.statistics import confusion, counts, voices
from protofleet.statistics.confusion import CONFUSION
from protofleet.statistics.contribution import MEANS, SCATTER
from protofleet.statistics.counts import COUNTS, Counts
from protofleet.values import limbs
from protofleet.values.prototypes import Part, Parts
from protofleet.values.sums import Partial, Sum
from protofleet.wire import Envelope

RELAY, RELAY_COUNT = "relay", "relay-count"  # as the envelope's method
METHODS = (RELAY, RELAY_COUNT)
_CLAIM = "about"


@dataclass(frozen=True)
class RelayClaim:
    """Under which extractor and in how many buckets, of whom. Of sums: of which classes by name,
    and how many devices have each. Of counts: against which total.
    """

    lineage: str
    members: tuple[str, ...]
    classes: tuple[str, ...] = ()
    holders: tuple[int, ...] = ()
    total: str = ""
    buckets: int = 1

    def __post_init__(self) -> None:
        # Says the same of names as a single device's claim.
        Claim(self.lineage, self.classes)
        if not self.members or len(set(self.members)) != len(self.members):
            raise SettingError("devices are due, each once")
        if not 0 < self.buckets < 2**16:
            raise SettingError(f"{self.buckets} buckets")
        if len(self.holders) != len(self.classes):
            raise SettingError("of each class is due how many devices have it")
        if any(not 0 < number <= len(self.members) for number in self.holders):
            raise SettingError("a class is had by one device at least, and by no more than all")

    def by_bucket(self) -> dict[int, tuple[str, ...]]:
        """Who is in which."""
        dealt: dict[int, list[str]] = {}
        for name in self.members:
            dealt.setdefault(voices.bucket_of(name, self.buckets), []).append(name)
        return {bucket: tuple(dealt[bucket]) for bucket in sorted(dealt)}


@dataclass(frozen=True, eq=False)
class RelayedTotal:
    """A site's sums as they came; keys of means are a place among the claim's classes, times the
    buckets, and the bucket.
    """

    claim: RelayClaim
    partial: Partial
    envelope: Envelope
    digest: str

    @property
    def samples(self) -> dict[str, int]:
        """By class."""
        means = self.partial[MEANS]
        assert isinstance(means, Sum)  # it was checked
        places = means.keys // self.claim.buckets
        weights = np.bincount(places, means.weights, len(self.claim.classes)).astype(np.int64)
        return dict(zip(self.claim.classes, weights.tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class RelayedCounts:
    """What a site's devices counted, as it came: by bucket, who, and what together."""

    claim: RelayClaim
    shares: Mapping[int, tuple[tuple[str, ...], Counts]]
    envelope: Envelope
    digest: str


def write_total(claim: RelayClaim, total: Partial, envelope: Envelope) -> bytes:
    """The message of these sums; `FusionError` if a number in them has no room in it."""
    parts: dict[str, Part] = {_CLAIM: document_part(claim)}
    for name in (MEANS, SCATTER):
        part = total.get(name)
        if not isinstance(part, Sum):
            raise FusionError(f"{name}: a sum is due")
        parts[name] = limbs.packed(name, part)
    return wire.encode(envelope, parts, "float32")


def write_counts(claim: RelayClaim, by_bucket: Mapping[int, Counts], envelope: Envelope) -> bytes:
    """The message of these counts."""
    parts: dict[str, Part] = {_CLAIM: document_part(claim)}
    for bucket, own in sorted(by_bucket.items()):
        of = {**counts.parts_of(own), **confusion.parts_of(own.confused)}
        parts |= {f"{name}{bucket}": part for name, part in of.items()}
    return wire.encode(envelope, parts, "float32")


def read(payload: bytes) -> RelayedTotal | RelayedCounts:
    """Either, checked, or `WireError` and nothing else."""
    message = wire.decode(payload)
    envelope = message.envelope
    if envelope.t != "enrol" or envelope.method not in METHODS:
        raise WireError("enrol.method: relay or relay-count is due")
    parts: Parts = dict(message.body)
    about = plain_of(parts.get(_CLAIM), "enrol.parts.about")
    try:
        claim = from_plain(RelayClaim, about, "about")
        if envelope.method == RELAY_COUNT:
            return RelayedCounts(claim, _shares(claim, parts), envelope, message.digest)
        partial = {name: limbs.unpacked(name, parts.get(name)) for name in (MEANS, SCATTER)}
        _fits(claim, partial[MEANS], partial[SCATTER])
        if len(parts) != 3:
            raise FusionError(f"{MEANS} and {SCATTER} are due, and nothing else")
        return RelayedTotal(claim, partial, envelope, message.digest)
    except (FusionError, SettingError) as error:
        raise WireError(f"enrol.parts: {error.words}") from None


def _shares(claim: RelayClaim, parts: Parts) -> dict[int, tuple[tuple[str, ...], Counts]]:
    """What those of each bucket counted together."""
    shares, dealt = {}, claim.by_bucket()
    for bucket, names in dealt.items():
        of = {COUNTS: parts.get(f"{COUNTS}{bucket}"), CONFUSION: parts.get(f"{CONFUSION}{bucket}")}
        there = {name: part for name, part in of.items() if part is not None}
        own = counts.from_parts(there, devices=len(names))
        confused = confusion.from_parts(there, own.samples, whole=False)
        shares[bucket] = names, replace(own, confused=confused)
    due = {f"{name}{bucket}" for name in (COUNTS, CONFUSION) for bucket in dealt} | {_CLAIM}
    if strange := sorted(parts.keys() - due):
        raise FusionError(f"{strange[0][:40]}: counts of nobody")
    return shares


def _fits(claim: RelayClaim, means: Sum, scatter: Sum) -> None:
    """Rows are of the classes and devices that are named, and both sums of the same samples."""
    buckets = claim.buckets
    places, rows = np.divmod(means.keys, buckets)
    if np.unique(places).tolist() != list(range(len(claim.classes))):
        raise FusionError(f"{MEANS}: rows of every class that is named are due")
    if scatter.keys.size and scatter.keys[-1] >= buckets:
        raise FusionError(f"{SCATTER}: {scatter.keys[-1]} is no bucket")
    by_bucket = np.zeros(buckets, np.int64)
    np.add.at(by_bucket, rows, means.weights)
    others = np.zeros(buckets, np.int64)
    others[scatter.keys] = scatter.weights
    if not np.array_equal(by_bucket, others):
        raise FusionError(f"{MEANS} and {SCATTER} are not of the same samples")
    if set(np.flatnonzero(by_bucket).tolist()) != claim.by_bucket().keys():
        raise FusionError(f"{MEANS}: the buckets are not those of the devices that are named")
    if means.low.ndim != 2 or scatter.low.ndim != 2:
        raise FusionError(f"{MEANS} and {SCATTER}: rows of numbers are due")
    width = means.low.shape[1]
    if scatter.low.shape[1] != width * (width + 1) // 2:
        raise FusionError(f"{SCATTER}: the upper triangle of {width} × {width} is due")


def names_of(lineage: str, classes: Mapping[str, int], members: Sequence[str]) -> RelayClaim:
    """The claim of sums of these devices, where so many have each class; in an order that tells
    nothing of arrivals.
    """
    names = tuple(sorted(classes))
    return RelayClaim(
        lineage, tuple(sorted(members)), names, tuple(classes[name] for name in names)
    )
