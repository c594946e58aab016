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
# How a sum travels. A total of 1,280 features has 820,000 entries of two limbs, 13 MB as they are.
# Most of it is zeros: scatter lies on a grid of 2⁻²⁴, and its numbers are far below 2⁶². Both limbs
# as one number in two's complement are twelve bytes, of which the lowest that are zero everywhere
# and the highest that only repeat the sign are left out: five are left, 4 MB.
#
# What is read is held to what honest sums are: rows rise, weights are above 0, limbs are carried,
# no third limb. What numbers may be in them is said where they are let in.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from protofleet import wire
from protofleet.errors import FusionError, SettingError, WireError
from protofleet.exchange.contributed import Claim
from protofleet.exchange.published import document_part, plain_of
from protofleet.settings.fields import from_plain
from protofleet.statistics import confusion, counts, voices
from protofleet.statistics.confusion import CONFUSION
from protofleet.statistics.contribution import MEANS, SCATTER
from protofleet.statistics.counts import COUNTS, Counts
from protofleet.values.prototypes import Part, Parts, Tensors
from protofleet.values.sums import Partial, Sum, as_tensors, from_tensors
from protofleet.wire import Envelope

RELAY, RELAY_COUNT = "relay", "relay-count"  # as the envelope's method
METHODS = (RELAY, RELAY_COUNT)
_CLAIM = "about"
_LIMBS = 12  # bytes of a number: four of the low limb, eight of the high one
Bytes = NDArray[np.uint8]
_HIGHEST = 2**54  # of a high limb that may still be added to others


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
        parts[name] = _packed(name, part)
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
        partial = {name: _unpacked(name, parts.get(name)) for name in (MEANS, SCATTER)}
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
    width = means.low.shape[1]
    if scatter.low.shape[1] != width * (width + 1) // 2:
        raise FusionError(f"{SCATTER}: the upper triangle of {width} × {width} is due")


def _packed(name: str, part: Sum) -> Tensors:
    """Rows by their bytes, without those that say nothing."""
    arrays = as_tensors({name: part}).arrays
    if f"{name}.top" in arrays:
        raise FusionError(f"{name}: a number is too large to be told upward")
    low, high = np.asarray(arrays[f"{name}.low"]), np.asarray(arrays[f"{name}.high"])
    limbs = np.empty((*low.shape, _LIMBS), np.uint8)
    limbs[..., :4] = low.astype("<u4")[..., None].view(np.uint8)
    limbs[..., 4:] = high.astype("<i8")[..., None].view(np.uint8)
    first, last = 0, _LIMBS - 1
    while first < last and not limbs[..., first].any():
        first += 1
    # The highest byte that is left says the sign, and those above it repeat that.
    while last > first and np.array_equal(limbs[..., last], _sign(limbs[..., last - 1])):
        last -= 1
    return Tensors(
        {
            "keys": np.asarray(arrays[f"{name}.keys"], np.int64),
            "weights": np.asarray(arrays[f"{name}.weights"], np.int64),
            "bytes": np.ascontiguousarray(limbs[..., first : last + 1]).astype(np.int64),
            "first": np.array([first], np.int64),
        }
    )


def _unpacked(name: str, part: Part | None) -> Sum:
    """And back, checked."""
    if not isinstance(part, Tensors) or part.arrays.keys() != {"keys", "weights", "bytes", "first"}:
        raise FusionError(f"{name}: keys, weights, bytes and their first are due")
    arrays = {key: np.asarray(array) for key, array in part.arrays.items()}
    if any(array.dtype.kind not in "iu" for array in arrays.values()):
        raise FusionError(f"{name}: whole numbers are due")
    keys, weights, some, first = (arrays[key] for key in ("keys", "weights", "bytes", "first"))
    if keys.ndim != 1 or weights.shape != keys.shape or not keys.size:
        raise FusionError(f"{name}: rows are due, each with its key and weight")
    if keys[0] < 0 or np.any(np.diff(keys) <= 0) or keys[-1] >= 2**40:
        raise FusionError(f"{name}: keys that rise are due")
    if weights.min() <= 0 or weights.max() >= 2**40:
        raise FusionError(f"{name}: each row's samples are due")
    if some.ndim != 3 or len(some) != len(keys) or not some.size:
        raise FusionError(f"{name}: the bytes of every row are due")
    if first.shape != (1,) or first[0] < 0 or first[0] + some.shape[2] > _LIMBS:
        raise FusionError(f"{name}: {some.shape[2]} bytes from the {first.tolist()}th")
    if some.min() < 0 or some.max() > 255:
        raise FusionError(f"{name}: bytes are due")
    at = int(first[0])
    limbs = np.zeros((*some.shape[:2], _LIMBS), np.uint8)
    limbs[..., at : at + some.shape[2]] = some
    limbs[..., at + some.shape[2] :] = _sign(limbs[..., at + some.shape[2] - 1])[..., None]
    low = np.ascontiguousarray(limbs[..., :4]).view("<u4")[..., 0].astype(np.int64)
    high = np.ascontiguousarray(limbs[..., 4:]).view("<i8")[..., 0].astype(np.int64)
    if max(int(high.max()), -int(high.min())) >= _HIGHEST:
        raise FusionError(f"{name}: a number that no sum of honest devices has")
    limbs_of = {"keys": keys, "weights": weights, "high": high, "low": low}
    whole = from_tensors(Tensors({f"{name}.{limb}": array for limb, array in limbs_of.items()}))
    one = whole[name]
    assert isinstance(one, Sum)
    return one


def _sign(highest: Bytes) -> Bytes:
    """What all bytes above these are."""
    above: Bytes = np.where(highest & 0x80, 0xFF, 0).astype(np.uint8)
    return above


def names_of(lineage: str, classes: Mapping[str, int], members: Sequence[str]) -> RelayClaim:
    """The claim of sums of these devices, where so many have each class; in an order that tells
    nothing of arrivals.
    """
    names = tuple(sorted(classes))
    return RelayClaim(
        lineage, tuple(sorted(members)), names, tuple(classes[name] for name in names)
    )
