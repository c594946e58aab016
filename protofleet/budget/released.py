"""Sums as they are released under a budget: every row there could be, with its count as one more
number, and noise on all of them.
"""

# Theory of operation
#
# A plain partial tells by which rows it has, and by whole weights, who is in it. What is released
# must not, so a sum of K keys becomes one of K rows, always all of them:
#
#   row c        values of key c (in steps of 2⁻¹²), then its weight as one more number
#   weight       1 a device, which says nothing of its samples
#
# Noise is discrete Gaussian on the same grid, σ_v for values and σ_w for weights. One sample (or
# device) changes the values by at most `change` in length and the weights by `counted`; of a
# publication's ρ each part of it gets a share, so
#
#   σ = change / √(2 · share · ρ)
#
# Weights are whole but their noise is on the grid, too.
#
# Noise at the coordinator is added once to the total. Under masks each device adds its own, with
# the variance over as many devices as must survive: whoever is lost, there is enough. A sum of n
# discrete Gaussians of σ/√n is none of σ, but nearly (Kairouz, Liu and Steinke 2021, "The
# Distributed Discrete Gaussian Mechanism"): what it tells is at most what one of σ tells, and
#
#   τ = 10 Σ_{k<n} exp(−2π² s² k/(k+1)) ≤ 10 n exp(−π² s²)
#
# more for each number, where s is one device's σ in steps. So no device draws with fewer than
# FEWEST steps: then τ is below 10⁻⁶⁷ n, which no accountant counts, and ρ is as for one sampler.
#
# Reading it again is arithmetic on what is public: a row whose noisy weight is not well above its
# own noise is taken for nobody's. So a total goes back to what a recipe fuses.

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from protofleet.budget.clipping import POINT
from protofleet.budget.noise import Sampler
from protofleet.errors import FusionError
from protofleet.masking.rooms import GRID_BITS, Room, Rooms
from protofleet.values.prototypes import Ints, Tensors
from protofleet.values.sums import Partial, Sum, as_tensors, from_tensors

SURE = 3.0  # σ_w that a row's noisy weight must be above
FEWEST = 4.0  # steps of σ of who adds a part of the noise
_UNIT = 1 << (GRID_BITS - POINT)


@dataclass(frozen=True)
class Released:
    """One sum: its keys, a row's shape, and how far one sample or device moves it."""

    rows: int
    shape: tuple[int, ...]
    change: float
    share: float  # of ρ, for values
    counted: float = 0.0  # how far it moves the weights; 0: they are not released
    count_share: float = 0.0
    most: float = 2.0**30  # of one sample's numbers, or one device's, for a masked sum's room

    @property
    def numbers(self) -> int:
        """Of one row, with its weight."""
        return math.prod(self.shape) + (1 if self.counted else 0)


@dataclass(frozen=True)
class Mechanism:
    """What is released in one publication, and at which ρ."""

    sums: Mapping[str, Released]
    rho: float

    def __post_init__(self) -> None:
        shares = sum(one.share + one.count_share for one in self.sums.values())
        if shares > 1 + 1e-9:
            raise FusionError(f"shares of {shares:.3g} of one publication's budget")

    def scales(self, name: str) -> tuple[float, float]:
        """σ of values and of weights."""
        one = self.sums[name]
        values = one.change / math.sqrt(2 * one.share * self.rho)
        if not one.counted:
            return values, 0.0
        return values, one.counted / math.sqrt(2 * one.count_share * self.rho)

    def rooms(self, times: int = 1) -> Rooms:
        """What a masked sum of so many samples of a device may hold, noise and all."""
        return {
            name: Room(
                one.rows, POINT, one.most * times + 16 * max(self.scales(name)), 1, (one.numbers,)
            )
            for name, one in self.sums.items()
        }

    def widened(self, partial: Partial) -> Partial:
        """One device's sums, every row with its weight as a number."""
        whole, wide = as_tensors(partial), {}
        for name, one in self.sums.items():
            steps = np.zeros((one.rows, one.numbers), np.int64)
            keys = whole.arrays.get(f"{name}.keys")
            if keys is not None and keys.size:
                steps[keys, : math.prod(one.shape)] = _steps(name, whole).reshape(len(keys), -1)
                if one.counted:
                    steps[keys, -1] = np.asarray(whole[f"{name}.weights"], np.int64) << POINT
            every = np.arange(one.rows)
            wide[name] = sum_of_steps(every, steps, np.ones(one.rows, np.int64))
        if set(partial) - set(self.sums):
            raise FusionError(f"{', '.join(sorted(set(partial) - set(self.sums)))}: not released")
        return wide

    def noise(self, sample: Sampler, share: float = 1.0) -> Partial:
        """What is added to a total; `share` of its variance, where several add some."""
        noisy = {}
        for name, one in self.sums.items():
            values, counts = self.scales(name)
            size = math.prod(one.shape)
            steps = np.zeros((one.rows, one.numbers), np.int64)
            steps[:, :size] = sample(_part(values, share), one.rows * size).reshape(-1, size)
            if one.counted:
                steps[:, -1] = sample(_part(counts, share), one.rows)
            every = np.arange(one.rows)
            noisy[name] = sum_of_steps(every, steps, np.zeros(one.rows, np.int64))
        return noisy

    def narrowed(self, total: Partial) -> Partial:
        """As a recipe fuses it: rows of keys that somebody stands behind, with their weights."""
        whole = as_tensors(total)
        arrays: dict[str, Ints] = {}
        for name, one in self.sums.items():
            if f"{name}.keys" not in whole.arrays or not whole[f"{name}.keys"].size:
                continue
            keys, high, low = (
                np.asarray(whole[f"{name}.{limb}"], np.int64) for limb in ("keys", "high", "low")
            )
            size = math.prod(one.shape)
            weights = np.ones(len(keys), np.int64)
            if one.counted:
                noisy = high[:, -1] * 2.0**-8 + low[:, -1] * 2.0**-GRID_BITS
                weights = np.rint(noisy).astype(np.int64)
            some = weights >= max(1.0, SURE * self.scales(name)[1])
            rows = (int(some.sum()), *one.shape)
            arrays |= {
                f"{name}.keys": keys[some],
                f"{name}.weights": weights[some],
                f"{name}.high": high[some, :size].reshape(rows),
                f"{name}.low": low[some, :size].reshape(rows),
            }
        return from_tensors(Tensors(arrays))


def _part(scale: float, share: float) -> float:
    """σ in steps of who adds this share of the variance."""
    steps = scale * math.sqrt(share) * 2.0**POINT
    return steps if share == 1 else max(FEWEST, steps)


def noise_steps(noise: Partial) -> Tensors:
    """Noise as whole steps of its grid, to be kept; no row of it has a weight."""
    return Tensors(
        {
            name: (one.high << (32 - GRID_BITS + POINT)) + one.low // _UNIT
            for name, one in noise.items()
            if isinstance(one, Sum)
        }
    )


def beyond(total: Partial, plain: Partial) -> Tensors:
    """What a total has that these sums of the same devices have not: its noise, in whole steps."""
    known = noise_steps(plain)
    rest: dict[str, Ints] = {}
    for name, steps in noise_steps(total).arrays.items():
        one, other = (as_tensors(sums).arrays.get(f"{name}.weights") for sums in (total, plain))
        if one is None or other is None or not np.array_equal(one, other):
            raise FusionError(f"{name}: of other devices")
        rest[name] = np.asarray(steps - known[name], np.int64)
    return Tensors(rest)


def noise_of(steps: Tensors) -> Partial:
    """And back."""
    sums: dict[str, Sum] = {}
    for name, array in steps.arrays.items():
        rows = np.asarray(array, np.int64)
        sums[name] = sum_of_steps(np.arange(len(rows)), rows, np.zeros(len(rows), np.int64))
    return sums


def _steps(name: str, whole: Tensors) -> Ints:
    """Values in steps of this grid, which they must be on."""
    high, low = (np.asarray(whole[f"{name}.{limb}"], np.int64) for limb in ("high", "low"))
    if np.any(low % _UNIT) or np.any(np.abs(high) >= 2**40) or f"{name}.top" in whole.arrays:
        raise FusionError(f"{name}: values off the grid on which noise is drawn")
    steps: Ints = (high << (32 - GRID_BITS + POINT)) + (low // _UNIT)
    return steps


def sum_of_steps(keys: Ints, steps: Ints, weights: Ints) -> Sum:
    """Whole steps as a sum that is merged with others; a row of weight 0 may have values here."""
    high, low = steps >> (32 - GRID_BITS + POINT), (steps & (2**4 - 1)) * _UNIT
    tall = float(np.abs(high).max(initial=0)) + 1
    return Sum(keys, high, low, weights, 2.0**32, tall=tall)
