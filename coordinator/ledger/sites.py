"""The door for sites: which sums that a site says in its devices' place are let in. Pure functions
of a message and what is there.
"""

# Theory of operation
#
# A device can be held to what one device may say. A site speaks for many, and nobody can look into
# its sum; so only those may that the settings name (`[admission] sites`), and its sum is held to
# what the sum of so many honest devices can be:
#
#   rows of means     no longer than means may be, as often as there are samples
#   samples           at most what its devices may have together
#   scatter T         the trace of T − Σ n μ μᵀ is not below zero, and no larger than the limit on a
#                     device's, a sample; no entry is larger than the trace of T
#
# A device is in one sum. Who contributed here, or is in another site's sum, is in no second one:
# its name would be counted twice, and its samples may be. The first stays until it is forgotten
# where it is.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from coordinator.config import UploadLimits
from coordinator.ledger.admission import LONGEST_NAME, MOST_CLASSES, other_lineage
from coordinator.ledger.ledger import GRID, Ledger
from coordinator.uploads.validation import Refusal
from protofleet.exchange.gathered import GROUP
from protofleet.exchange.relayed import RelayClaim, RelayedCounts, RelayedTotal
from protofleet.mqtt.topics import NAME
from protofleet.statistics.contribution import MEAN_STEPS, MEANS, SCATTER
from protofleet.values.sums import Sum
from protofleet.wire.codes import Reason

LARGEST_MEAN = MEAN_STEPS * 2.0**GRID.exponent  # of a number in one
ROUNDING = 1e-6  # of a trace, by which sums of floats may be off


@dataclass(frozen=True)
class SiteLimits:
    """What a site's sum must fit."""

    sites: tuple[str, ...]  # that may speak for devices
    lineage: str
    width: int
    buckets: int = 1
    classes: int = MOST_CLASSES
    figures: UploadLimits = field(default_factory=UploadLimits)
    devices: int = 10_000


def stranger(site: str, sites: Sequence[str]) -> Refusal | None:
    """Whether anybody may speak for devices by this name."""
    if site in sites:
        return None
    words = f'{site} is no site here: [admission] sites = ["{site}"] of the coordinator is due'
    return Refusal(Reason.NO_SITE, words)


def admitted(site: str, said: RelayedTotal | RelayedCounts, limits: SiteLimits) -> Refusal | None:
    """Whether it may be added up, by itself."""
    claim = said.claim
    if (refusal := stranger(site, limits.sites)) is not None:
        return refusal
    if claim.lineage != limits.lineage:
        return other_lineage(limits.lineage)
    many, most = len(claim.members), limits.classes
    rules = (
        (
            claim.buckets == limits.buckets,
            Reason.CONFLICT,
            f"sums in {claim.buckets} buckets, where there are {limits.buckets}",
        ),
        (
            many <= limits.devices,
            Reason.MANY,
            f"{many} devices of one site, at most {limits.devices} are taken",
        ),
        (
            all(NAME.fullmatch(name) for name in claim.members),
            Reason.BAD_NAME,
            "a device's name is not one that a device may have",
        ),
        (
            len(claim.classes) <= most,
            Reason.MANY,
            f"{len(claim.classes)} classes of one site, at most {most} are taken",
        ),
        (
            all(name.isprintable() and len(name) <= LONGEST_NAME for name in claim.classes),
            Reason.BAD_NAME,
            f"class names are printable and of at most {LONGEST_NAME} letters",
        ),
    )
    refused = next((Refusal(code, words) for holds, code, words in rules if not holds), None)
    if refused is not None or isinstance(said, RelayedCounts):
        return refused
    return _figures(said, limits)


def elsewhere(site: str, claim: RelayClaim, ledger: Ledger) -> Refusal | None:
    """Whether a device is in another sum already, or one too many comes."""
    there = {who: who for who, _ in ledger.entries if who not in (site, GROUP)}
    for (who, _), entry in ledger.entries.items():
        there |= {name: who for name in entry.members if who != site}
    for name in claim.members:
        if (where := there.get(name)) is not None:
            place = "here" if where in (name, GROUP) else f"at {where}"
            return Refusal(
                Reason.CONFLICT, f"{name} contributed {place}: it is to be forgotten there"
            )
    return None


def too_many(claim: RelayClaim, others: Sequence[str], most: int) -> Refusal | None:
    """Whether there is no room for all of its devices beside the others."""
    whole = len({*others, *claim.members})
    if whole <= most:
        return None
    return Refusal(Reason.MANY, f"{whole} devices contributed then, at most {most} are taken")


def _figures(said: RelayedTotal, limits: SiteLimits) -> Refusal | None:
    """Whether the numbers are such as so many honest devices come to."""
    means, scatter = said.partial[MEANS], said.partial[SCATTER]
    assert isinstance(means, Sum)  # both were checked
    assert isinstance(scatter, Sum)
    width, many = means.low.shape[1], len(said.claim.members)
    if width != limits.width:
        words = f"{width} numbers a mean where {limits.width} are due"
        return Refusal(Reason.DIMENSION, words)
    figures, largest = limits.figures, max(said.samples.values())
    if largest > figures.count * many:
        words = f"{largest} samples of a class, at most {figures.count} a device are plausible"
        return Refusal(Reason.COUNT, words)
    samples = sum(said.samples.values())
    if samples > figures.samples * many:
        words = f"{samples} samples, at most {figures.samples} a device are plausible"
        return Refusal(Reason.COUNT, words)
    rows = means.mean()
    lengths = np.sqrt((rows**2).sum(1))
    if np.abs(rows).max() >= LARGEST_MEAN or lengths.max() > figures.norm:
        return Refusal(Reason.NORM, f"a mean of length {lengths.max():.3g}")
    return _scatter(means, scatter, limits)


def _scatter(means: Sum, scatter: Sum, limits: SiteLimits) -> Refusal | None:
    """Whether it is one, of these means."""
    entries, width = scatter.total(), means.low.shape[1]
    # Row i of the triangle begins with its diagonal, and is one entry shorter than that before it.
    places = np.concatenate([[0], np.cumsum(np.arange(width, 1, -1))])
    rows = means.total()
    lengths = (rows**2).sum(1) / means.weights
    for at, bucket in enumerate(scatter.keys.tolist()):
        trace = float(entries[at, places].sum())
        slack = ROUNDING * max(1.0, abs(trace))
        within = trace - float(lengths[means.keys % limits.buckets == bucket].sum())
        if within > limits.figures.trace * int(scatter.weights[at]) + slack:
            each = within / int(scatter.weights[at])
            words = f"a covariance of trace {each:.3g}, at most {limits.figures.trace:g}"
            return Refusal(Reason.TRACE, f"{words} is plausible")
        if within < -slack or entries[at, places].min() < -slack:
            return Refusal(Reason.TRACE, "scatter that is less than its means alone have")
        if np.abs(entries[at]).max() > trace + slack:
            return Refusal(Reason.TRACE, "scatter with an entry beyond its trace")
    return None
