"""Whose counts a fleet in buckets goes by: those of voices that are not far from what most say."""

# Theory of operation
#
# Counts decide for all how much is shrunk (ρ), how sure scores are (T), and how far a sample lies
# from its class (D̄). A device whose contribution is true can still count whatever it likes: that
# every setting but the worst loses all, or that samples lie nowhere near their classes, which makes
# each mean worth nothing. So counts have doubts of their own. Of a voice with n samples:
#
#   D[ρ]     its distances / n
#   E[ρ, T]  its losses / n, less the least of them: what a setting costs it beyond its best
#   *        the setting at which the median of all voices' E is least (of equals the last)
#
# A voice is doubted
#
#   if D[ρ*] is more than FAR times the voices' median, or less than its FARth part
#   if E[*] is above COSTLY nats, and above FAR times the voices' median
#   if the share of its samples that are at most so odd is ODD away from the voices' median, at any
#   oddness: it decides where unknown begins, and what is usual
#   if it has more samples than all others together: nobody outvotes everybody
#
# The rest is added up as ever, so where nobody is doubted nothing changes, to the bit. Honest
# devices differ by less: their own best setting is near the fleet's, and their samples lie as far
# from their classes as others' do. Medians hold as long as fewer than half lie. Of two voices
# nothing says who does, and where half or more would go there is no majority: then all are used.

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from protofleet.statistics.counts import COUNTS, Counts, total
from protofleet.values.sums import Partial, Sum

Matrix = NDArray[np.float64]

WITNESSES = 3  # fewer voices are no majority
FAR = 4.0
COSTLY = 1.0  # nats
ODD = 0.9  # share of samples
STEP = 2.0**-16  # of what is counted


def by_bucket(sums: Partial, buckets: int) -> dict[int, Counts]:
    """What each bucket counted."""
    parts = {n: p for n, p in sums.items() if n.startswith(f"{COUNTS}/") and isinstance(p, Sum)}
    own: dict[int, Counts] = {}
    for bucket in sorted({key for part in parts.values() for key in part.keys.tolist()}):
        counts = total({name: part.only(part.keys == bucket) for name, part in parts.items()})
        if counts is not None:
            own[bucket % buckets] = counts
    return own


def together(by_voice: Mapping[int, Counts]) -> Counts | None:
    """The sum of those that are believed; None where nobody counted."""
    doubted = doubts(by_voice)
    used = [counts for voice, counts in sorted(by_voice.items()) if voice not in doubted]
    return reduce(Counts.plus, used) if used else None


def doubts(by_voice: Mapping[int, Counts]) -> frozenset[int]:
    """The voices whose counts are not used."""
    counted = {voice: counts for voice, counts in sorted(by_voice.items()) if counts.samples}
    if len(counted) < WITNESSES:
        return frozenset()
    samples = np.array([counts.samples for counts in counted.values()], np.float64)
    losses = _shares([counts.losses for counts in counted.values()], samples)
    excess = losses - losses.min((1, 2), keepdims=True)
    usual = np.median(excess, axis=0)
    row, column = np.argwhere(usual == usual.min())[-1]
    costs = excess[:, row, column]
    far = _shares([counts.distances for counts in counted.values()], samples)[:, row]
    middle = float(np.median(far))
    doubted = (far > FAR * middle) | (far * FAR < middle)
    doubted |= (costs > COSTLY) & (costs > FAR * float(usual[row, column]))
    odd = np.stack([counts.odd[row] for counts in counted.values()]).cumsum(1) / samples[:, None]
    doubted |= np.abs(odd - np.median(odd, axis=0)).max(1) > ODD
    doubted |= 2 * samples > samples.sum()
    if 2 * doubted.sum() >= len(doubted):
        return frozenset()
    return frozenset(voice for voice, bad in zip(counted, doubted.tolist(), strict=True) if bad)


def _shares(numbers: list[NDArray[np.int64]], samples: Matrix) -> Matrix:
    """A sample's share of each, in nats."""
    stacked = np.stack(numbers).astype(np.float64) * STEP
    shares: Matrix = stacked / samples.reshape(-1, *[1] * (stacked.ndim - 1))
    return shares
