"""Sums that do not care about order: what fusion adds up before anything non-linear happens.

Floating sums change when their terms are shuffled. Here a float32 is put on a fixed grid of 2⁻⁴⁰ as
a whole number, weighted by one and added exactly, so a partial depends on which uploads are in it
and on nothing else: any order, any split over workers, any tree of merges. What 64 bits cannot hold
is carried into a second integer, in steps of 2⁻⁸, and what that cannot hold into a third.
"""

# Theory of operation
#
# The same round is fused in many ways: uploads folded as they arrive, folded again from the journal
# after a crash, split over the laboratory's workers, replayed by `coordinator replay`. All must end
# in the same bytes, because the state's hash is its name. Addition of floats is not associative, so
# what is added here are integers, and only the end is a float again.
#
# The grid. A value v becomes the integer nearest to v · 2⁴⁰ (half to even). Every float32 of 2⁻¹⁷
# and above is on that grid already: its last bit is worth 2⁻⁴⁰ or more. What is smaller is rounded
# to it, by itself, before anything is added: the error (2⁻⁴¹ at most) depends on the value alone,
# not on any order.
#
# Onto the grid without a multiplication: between 2¹² and 2¹³ the last bit of a float64 is worth
# 2¹²⁻⁵² = 2⁻⁴⁰. So adding 1.5 · 2¹² to |v| < 2¹¹ lands in that range, the addition itself does the
# rounding, and the bits of the result, taken as an integer, count steps of the grid from the bits
# of 1.5 · 2¹². Larger values (up to 2²³) take the long way.
#
# Two limbs. A sum is `high` · 2⁻⁸ + `low` · 2⁻⁴⁰, both int64. As long as `low` cannot overflow,
# `high` is a single 0 and costs nothing. `reach` is the bound that says so: it starts at the
# largest value of an upload in steps of the grid, is multiplied by weights and added in merges, and
# is never looked for in the numbers again.
#
#   before             if reach would exceed 2⁶²
#   times a weight     carry: high += low >> 32, low &= 2³² − 1, reach = 2³²
#   a merge            carry both
#
# `>>` rounds towards minus infinity and `&` leaves what is above, so a carry is right for negative
# numbers as well. After it a weight below 2³¹ makes at most 2⁶³ of `low`, and of `high` at most
# 2²³ · 2⁸ · 2³¹ = 2⁶².
#
# A third limb. Nothing may bound a total: whoever filled it would shut the others out. So when two
# `high` together could exceed 2⁶² (`tall` is to `high` what `reach` is to `low`), they are lifted
# by the same rule into `top`, in steps of 2²⁴, which then has room for 2³³ uploads of the largest
# weight and value. Honest sums never come there, and their single 0 costs nothing.
#
# When somebody carries must not matter, and does not: `total` carries once more on a copy, and
# after a carry the limbs depend on the whole number that they make together alone. Two ways to the
# same set of uploads differ in when they carried and in nothing that can be seen.
#
# Keys let devices hold different classes: rows of the same key are added, others stand beside each
# other. Where all have the same keys, which is usual, merging is three additions.

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protofleet.errors import FusionError
from protofleet.values.prototypes import Ints, Parts, Tensors

_HIGH, _LOW = 8, 32  # bits after the point kept in `high`, and the further ones kept in `low`
_MAX_VALUE, _MAX_WEIGHT = 2.0**23, 2**31  # together below 2⁶²: nothing can overflow
_MAX_REACH = 2.0**62
_SETTLED = (
    2**30 + 1
)  # in `top` at most, of what two limbs may hold: 2⁶² and a carry, in steps of 2³²
# Added to a number below 2¹¹ in size, this leaves it on the grid in a float's last bits: the
# shortest way there.
_NEAR, _ONTO_GRID = 2.0**11, np.float64(1.5 * 2**12)
_GRID_BITS = _ONTO_GRID.view(np.int64)
_NOTHING = np.zeros((), np.int64)


@dataclass(frozen=True, eq=False)
class Sum:
    """Weighted sums of rows, one row a key (a class id, or 0 where there is only one): `top` · 2²⁴
    + `high` · 2⁻⁸ + `low` · 2⁻⁴⁰.

    `high` is a single 0 and `top` None as long as nothing was carried there; `reach` and `tall` are
    what no number in `low` and `high` exceeds in size.
    """

    keys: Ints
    high: Ints
    low: Ints
    weights: Ints
    reach: float
    top: Ints | None = None
    tall: float = 0.0

    @staticmethod
    def of(keys: ArrayLike, rows: ArrayLike, weights: ArrayLike | int) -> Sum:
        """Each row times its whole weight, or all times the same one; keys must differ."""
        key = np.asarray(keys, np.int64)
        if isinstance(weights, int):
            least = most = weights
            weight = _alike(len(key), min(weights, _MAX_WEIGHT))
        else:
            weight = np.asarray(weights, np.int64)
            least, most = (int(weight.min()), int(weight.max())) if weight.size else (1, 1)
        value = np.asarray(rows)
        value = value if value.dtype == np.float32 else value.astype(np.float64)
        peak = float(np.maximum.reduce(np.abs(value), axis=None)) if value.size else 0.0
        if not peak < _MAX_VALUE:
            raise FusionError(f"a value of {peak:.3g} is too large to be added exactly")
        if least < 0 or most >= _MAX_WEIGHT:
            raise FusionError(f"a weight of {most} is negative or too large to be added exactly")
        ids = key.tolist()  # a few class ids: a list is quicker to look through than an array
        if ids != sorted(ids):
            order = np.argsort(key, kind="stable")
            key, value, weight = key[order], value[order], weight[order]
        # One step more than the peak: it may have been rounded up.
        reach = peak * 2.0 ** (_HIGH + _LOW) + 1
        once = Sum(key, _NOTHING, _on_grid(value, peak), weight, reach)
        if once.reach * most > _MAX_REACH:
            once = once._carried()
        if least == most == 1:
            return once
        factor = weight.reshape(-1, *[1] * (value.ndim - 1))
        high, low = once.high * factor, once.low * factor
        return Sum(key, high, low, weight, once.reach * most, tall=once.tall * most)

    def merge(self, other: Sum) -> Sum:
        """The sum over both sets of uploads."""
        if self.low.shape[1:] != other.low.shape[1:]:
            raise FusionError(
                f"rows of shape {other.low.shape[1:]} beside rows of shape {self.low.shape[1:]}"
            )
        one, two = self, other
        if one.reach + two.reach > _MAX_REACH:
            one, two = one._carried(), two._carried()
        if one.tall + two.tall > _MAX_REACH:
            one, two = one._lifted(), two._lifted()
        alike = one.keys.tobytes() == two.keys.tobytes()
        reach, tall = one.reach + two.reach, one.tall + two.tall
        if alike and one.top is None and two.top is None:
            low, weights = one.low + two.low, one.weights + two.weights
            return Sum(one.keys, one.high + two.high, low, weights, reach, None, tall)
        tops = [part.top for part in (one, two) if part.top is not None]
        top: Ints | None = None
        if alike:
            keys = one.keys
            high, low, weights = one.high + two.high, one.low + two.low, one.weights + two.weights
            top = sum(tops[1:], tops[0])
        else:
            keys = np.union1d(one.keys, two.keys)
            low = np.zeros((len(keys), *one.low.shape[1:]), np.int64)
            high, weights = np.zeros_like(low), np.zeros(len(keys), np.int64)
            top = np.zeros_like(low) if tops else None
            for part in (one, two):
                at = np.searchsorted(keys, part.keys)
                high[at] += part.high
                low[at] += part.low
                weights[at] += part.weights
                if top is not None and part.top is not None:
                    top[at] += part.top
        return Sum(keys, high, low, weights, reach, top, tall)

    def minus(self, other: Sum) -> Sum:
        """The sum over the uploads that are in this one and not in that, which must all be in
        this one: to the bit the sum that never had them.
        """
        if not np.isin(other.keys, self.keys).all():
            raise FusionError("what is to be taken away was never added")
        top = None if other.top is None else -other.top
        away = Sum(
            other.keys, -other.high, -other.low, -other.weights, other.reach, top, other.tall
        )
        rest = self.merge(away)._canonical()
        if min(rest.weights.tolist(), default=0) < 0:
            raise FusionError("more is to be taken away than was added")
        return rest

    def keyed(self, keys: ArrayLike) -> Sum:
        """The same rows under other keys, which must differ."""
        key = np.asarray(keys, np.int64)
        if key.shape != self.keys.shape or len(np.unique(key)) != len(key):
            raise FusionError("a key of its own is due for every row")
        order = np.argsort(key)
        high = self.high[order] if self.high.ndim else self.high
        top = None if self.top is None else self.top[order]
        rows = key[order], high, self.low[order], self.weights[order]
        return Sum(*rows, self.reach, top, self.tall)

    def only(self, rows: NDArray[np.bool_]) -> Sum:
        """These of its rows alone."""
        high = self.high[rows] if self.high.ndim else self.high
        top = None if self.top is None else self.top[rows]
        part = self.keys[rows], high, self.low[rows], self.weights[rows]
        return Sum(*part, self.reach, top, self.tall)

    def digest(self) -> str:
        """The same for equal sums, however they came about."""
        same = self._canonical()
        hashed = sha256(str(same.low.shape).encode())
        arrays = (same.keys, same.weights, same.high, same.low)
        for array in arrays if same.top is None else (*arrays, same.top):
            hashed.update(np.ascontiguousarray(array, "<i8").tobytes())
        return hashed.hexdigest()

    def total(self) -> NDArray[np.float64]:
        """The sums as floats."""
        carried = self.high + (self.low >> _LOW)
        rest = self.low & (2**_LOW - 1)
        if self.top is not None:
            top, high = self.top + (carried >> _LOW), carried & (2**_LOW - 1)
            # What two limbs hold is the same float as without the third.
            near = ((top << _LOW) + high).astype(np.float64)
            carried = np.where(np.abs(top) <= _SETTLED, near, top * 2.0**_LOW + high)
        sums: NDArray[np.float64] = (carried + rest * 2.0**-_LOW) * 2.0**-_HIGH
        return sums

    def mean(self) -> NDArray[np.float64]:
        """The weighted means; a row of total weight zero stays zero."""
        divisor = np.maximum(self.weights, 1).reshape(-1, *[1] * (self.low.ndim - 1))
        means: NDArray[np.float64] = self.total() / divisor
        return means

    def _canonical(self) -> Sum:
        """Fully carried, without rows that nobody stands behind, bounded by what is there.

        A row of weight 0 is what is left where all that was added was taken away again.
        """
        carried = self._carried() if self.top is None else self._lifted()._settled()
        high = np.broadcast_to(carried.high, carried.low.shape)
        keep = carried.weights != 0
        limbs = [high, carried.low, *([] if carried.top is None else [carried.top])]
        if any(np.any(limb[~keep]) for limb in limbs):
            raise FusionError("what was taken away is not what was added")
        high, low, *top = (limb[keep] for limb in limbs)
        rows, weights = carried.keys[keep], carried.weights[keep]
        return Sum(rows, high, low, weights, 2.0**_LOW, next(iter(top), None), carried.tall)

    def _carried(self) -> Sum:
        """The same sums with as little in `low` as can be."""
        high, low = self.high + (self.low >> _LOW), self.low & (2**_LOW - 1)
        tall = self.tall + self.reach * 2.0**-_LOW + 1
        return Sum(self.keys, high, low, self.weights, 2.0**_LOW, self.top, tall)

    def _lifted(self) -> Sum:
        """Carried, and with as little in `high` as can be."""
        once = self._carried()
        high = np.broadcast_to(once.high, once.low.shape)
        top = (high >> _LOW) + (0 if self.top is None else self.top)
        return Sum(self.keys, high & (2**_LOW - 1), once.low, self.weights, 2.0**_LOW, top, 2.0**32)

    def _settled(self) -> Sum:
        """Of what is lifted: in two limbs, where they hold it, as if there never had been three."""
        if self.top is None or np.any(np.abs(self.top) > _SETTLED):
            return self
        high = (self.top << _LOW) + self.high
        tall = float(np.abs(high).max()) if high.size else 0.0
        return Sum(self.keys, high, self.low, self.weights, self.reach, tall=tall)


@lru_cache(maxsize=64)
def _alike(rows: int, weight: int) -> Ints:
    """So many times the same weight: what most uploads of a fleet have in common."""
    weights = np.full(rows, weight)
    weights.setflags(write=False)
    return weights


def _on_grid(value: NDArray[Any], peak: float) -> Ints:
    exact = value.astype(np.float64)  # a copy, which is then changed in place
    if peak < _NEAR:
        exact += _ONTO_GRID
        low: Ints = exact.view(np.int64)
        low -= _GRID_BITS
    else:
        exact *= 2.0 ** (_HIGH + _LOW)
        low = np.rint(exact, out=exact).astype(np.int64)
    return low


def as_tensors(total: Partial) -> Tensors:
    """Sums as arrays of whole numbers, the same for equal sums; `from_tensors` is the way back."""
    arrays: dict[str, Ints] = {}
    for name, part in total.items():
        if not isinstance(part, Sum):
            raise FusionError(f"{name}: only what is a sum is whole numbers")
        same = part._canonical()
        limbs = {"keys": same.keys, "weights": same.weights, "high": same.high, "low": same.low}
        arrays |= {f"{name}.{limb}": array for limb, array in limbs.items()}
        if same.top is not None:
            arrays[f"{name}.top"] = same.top
    return Tensors(arrays)


def from_tensors(tensors: Tensors) -> Partial:
    """The sums that these arrays are of."""
    arrays = {name: np.asarray(array, np.int64) for name, array in tensors.arrays.items()}
    names = {name.rpartition(".")[0] for name in arrays}
    sums: dict[str, Sum] = {}
    for name in sorted(names):
        high, top = arrays[f"{name}.high"], arrays.get(f"{name}.top")
        tall = float(np.abs(high).max(initial=0)) + 1
        limbs = (arrays[f"{name}.keys"], high, arrays[f"{name}.low"], arrays[f"{name}.weights"])
        sums[name] = Sum(*limbs, 2.0**_LOW, top, tall)
    return sums


@dataclass(frozen=True, eq=False)
class Bag:
    """Uploads kept whole, sorted by their agent: for fusions that need to see all of them at
    once.
    """

    items: tuple[tuple[str, int, Parts], ...]

    @staticmethod
    def of(agent: str, weight: int, parts: Parts) -> Bag:
        """One agent's parts."""
        return Bag(((agent, weight, parts),))

    def merge(self, other: Bag) -> Bag:
        """Both sets of uploads; the same agent twice is a mistake of the caller."""
        items = sorted((*self.items, *other.items), key=lambda item: item[0])
        for one, two in itertools.pairwise(items):
            if one[0] == two[0]:
                raise FusionError(f"agent {one[0]} was folded twice")
        return Bag(tuple(items))


Partial = Mapping[str, Sum | Bag]


def merge(one: Partial, two: Partial) -> Partial:
    """The partial over both sets of uploads."""
    merged = dict(one)
    for name, part in two.items():
        merged[name] = _joined(name, merged[name], part) if name in merged else part
    return merged


def subtract(total: Partial, one: Partial) -> Partial:
    """The partial without the uploads of one that are in it; sums alone can be taken from."""
    rest = dict(total)
    for name, part in one.items():
        whole = total.get(name)
        if not isinstance(part, Sum) or not isinstance(whole, Sum):
            raise FusionError(f"{name}: only what is a sum can be taken away again")
        rest[name] = whole.minus(part)
    return rest


def digest(total: Partial) -> str:
    """The hash of a partial of sums: equal uploads, equal hash, whatever happened in between."""
    hashed = sha256()
    for name in sorted(total):
        part = total[name]
        if not isinstance(part, Sum):
            raise FusionError(f"{name}: only sums have a hash of their own")
        if part.weights.any():
            hashed.update(f"{name}:{part.digest()};".encode())
    return hashed.hexdigest()


def bagged(total: Partial, name: str) -> tuple[tuple[str, int, Parts], ...]:
    """What is in this bag: agent, weight and parts of each upload; nothing where nobody sent."""
    bag = total.get(name)
    return bag.items if isinstance(bag, Bag) else ()


def _joined(name: str, one: Sum | Bag, two: Sum | Bag) -> Sum | Bag:
    match one, two:
        case Sum(), Sum():
            return one.merge(two)
        case Bag(), Bag():
            return one.merge(two)
    raise FusionError(f"{name}: a sum in one upload, a bag in another")


def merge_all(partials: Iterable[Partial]) -> Partial:
    """The partial over all of them; nothing at all is an empty partial."""
    total: Partial = {}
    for partial in partials:
        total = merge(total, partial)
    return total
