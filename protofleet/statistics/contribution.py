"""What a device says of its labelled samples under one extractor: counts, means, and the spread
about its own means as a few whole-numbered rows. Folding one is exact on every machine.
"""

# Theory of operation
#
# A classifier that knows which directions matter needs, beside each class's mean, the scatter of
# samples: T = Σ (x − m)(x − m)ᵀ. At 1,280 features that is 1.6 MB, four times what a device should
# send. What is sent instead, for n samples of C classes:
#
#   counts, means     n_c and μ_c, on a grid of powers of two (the lineage's), in half precision
#   rows              L (r × d, r at most the rank): the r strongest directions of the scatter about
#                     the device's own means, each row whole numbers −127 … 127 times a power of two
#   residual          the diagonal that L leaves over, not negative, on the grid
#
# so that  Σ (x − μ)(x − μ)ᵀ ≈ LᵀL + diag(residual)  and what the receiver folds is
#
#   T = LᵀL + diag(residual) + Σ n_c (μ_c − m)(μ_c − m)ᵀ
#
# Why factors about own means, and not a part of T: where features have a mean far from zero (random
# filters do), T is dominated by it, and what is rounded off T is larger than the scatter itself
# (measured: 86.8 % to 7.6 % in half precision). And T is positive semidefinite by construction,
# whoever sends it.
#
# A device that is to hold its spread back (`even`) sends the trace in place of rows and residual,
# as a residual of equal numbers: sums, counts and classifier take it like any other. With no number
# at all there would be nothing to hold distances of means against.
#
# Why it is exact. A row is q · 2^e with |q| ≤ 127; exponents of one contribution lie within
# SPREAD of the largest and above LEAST, so a product of two entries is a whole multiple of
# 2^(2·LEAST) = 2⁻⁴⁰, the grid of `values.sums`, and below 2⁵³ of them for up to MOST_ROWS rows. A
# sum of such numbers has no rounding in float64, in whatever order a matrix product adds them. The
# same holds for the means: their grid has at most 2¹⁵ steps to either side, products 2³⁰, times
# counts below 2²⁰. So T is the same to the bit wherever and however often it is computed, which is
# what lets a ledger take a contribution away again.
#
# What is folded is what came over the wire: a device computes the numbers below, sends them, and
# forgets the rest. Nothing that was rounded on one side is exact on the other.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protofleet.errors import FusionError
from protofleet.masking.rooms import Ceilings, Room, Rooms
from protofleet.values.prototypes import Floats, Ints, Parts, Prototypes, Tensors
from protofleet.values.sums import Partial, Sum

Matrix = NDArray[np.float64]

RANK = 256  # directions; within half a point of the whole covariance (docs/methods/fleet.md)
MOST_ROWS = 1024
MOST_SAMPLES = 2**20  # of one device: with MEAN_STEPS² below 2⁵³
LEAST, SPREAD = -20, 14  # the smallest exponent of a row, and how far below the largest one may be
# The smallest that is said: finer than the means' own grid a spread says nothing. So products are
# multiples of 2⁻²⁴, which is what masked sums have room for.
FINEST = -12
MEAN_STEPS = 2**15  # of the lineage's grid, to either side of its centre
RESIDUAL_BITS = 16  # after the point
MEANS, SCATTER = "prototypes", "scatter"  # names of the parts on the wire


@dataclass(frozen=True)
class Grid:
    """The lineage's: means are multiples of 2^exponent, at most MEAN_STEPS of them."""

    exponent: int = -10

    def __post_init__(self) -> None:
        if not LEAST <= self.exponent <= 8:
            raise FusionError(f"a grid of 2^{self.exponent} is none: {LEAST} to 8")

    @staticmethod
    def over(largest: float) -> Grid:
        """The finest that holds values up to twice this size."""
        exponent = int(np.ceil(np.log2(max(2 * largest, 2.0**-4) / MEAN_STEPS)))
        return Grid(min(max(exponent, LEAST // 2), 8))

    @staticmethod
    def fitting(values: ArrayLike) -> Grid:
        """The usual one; where it cannot hold these values, one that can, and no ledger takes."""
        largest = float(np.abs(np.asarray(values)).max(initial=0.0))
        usual = Grid()
        return usual if largest < MEAN_STEPS * 2.0**usual.exponent else Grid.over(largest)

    def onto(self, values: ArrayLike) -> Floats:
        """The nearest point that half precision holds, too."""
        steps = np.asarray(np.asarray(values, np.float64).astype(np.float16), np.float64)
        steps = np.rint(steps * 2.0**-self.exponent)
        points: Floats = (np.clip(steps, 1 - MEAN_STEPS, MEAN_STEPS - 1)).astype(np.float32)
        return points * np.float32(2.0**self.exponent)

    def holds(self, values: Floats) -> bool:
        """Whether these are points of it."""
        steps = values.astype(np.float64) * 2.0**-self.exponent
        return bool(np.all(steps == np.rint(steps)) and np.all(np.abs(steps) < MEAN_STEPS))


@dataclass(frozen=True, eq=False)
class Contribution:
    """Means with counts, and the scatter about them as rows and a residual."""

    means: Prototypes
    rows: NDArray[np.int8]  # [r, d]
    exponents: Ints  # [r]
    residual: Floats  # [d]

    def __post_init__(self) -> None:
        counts, width = self.means.counts, self.means.dim
        if counts is None or not self.means.classes.size or not counts.all():
            raise FusionError("contribution: class means are due, each with its samples")
        if len(np.unique(self.means.classes)) != len(self.means.classes):
            raise FusionError("contribution: one mean a class is due")
        if int(counts.sum()) >= MOST_SAMPLES:
            raise FusionError(f"contribution: {counts.sum()} samples, below {MOST_SAMPLES} are due")
        if self.rows.shape[1:] != (width,) or self.residual.shape != (width,):
            raise FusionError(f"contribution: rows and residual of {width} numbers are due")
        if len(self.rows) > MOST_ROWS or self.exponents.shape != (len(self.rows),):
            raise FusionError(f"contribution: {len(self.rows)} rows and their exponents")
        if len(self.rows) and not _near(self.exponents):
            raise FusionError("contribution: exponents too small, or too far from each other")
        points = self.residual.astype(np.float64) * 2.0**RESIDUAL_BITS
        if np.any(points < 0) or np.any(points != np.rint(points)):
            raise FusionError("contribution: the residual is negative or off its grid")

    @property
    def samples(self) -> int:
        """How many stand behind it."""
        return int(np.sum(np.asarray(self.means.counts)))

    @property
    def is_even(self) -> bool:
        """Whether it says no more of the scatter than its size."""
        return not len(self.rows) and bool(np.all(self.residual == self.residual[:1]))

    def even(self) -> Contribution:
        """The same with one number of its scatter, the trace: as if all directions were alike."""
        squares = (scaled(self.rows, self.exponents) ** 2).sum()
        trace = float(squares) + float(self.residual.sum(dtype=np.float64))
        share = np.ceil(trace / self.means.dim * 2.0**RESIDUAL_BITS) * 2.0**-RESIDUAL_BITS
        return replace(
            self,
            rows=self.rows[:0],
            exponents=self.exponents[:0],
            residual=np.full_like(self.residual, share),
        )

    def keyed(self, classes: Ints) -> Contribution:
        """The same under other class ids, in the order of its own."""
        means = self.means
        return replace(self, means=Prototypes(classes, means.vectors, means.counts))


def contribution(
    features: ArrayLike, labels: ArrayLike, grid: Grid, rank: int = RANK
) -> Contribution:
    """Of samples [n, d] and their class ids; rank 0 sends the diagonal alone."""
    x, y = np.asarray(features, np.float64), np.asarray(labels, np.int64)
    classes, index, counts = np.unique(y, return_inverse=True, return_counts=True)
    sums = np.zeros((len(classes), x.shape[1]))
    np.add.at(sums, index, x)
    means = Prototypes(classes, grid.onto(sums / counts[:, None]), counts)
    # About the means that travel: what their rounding moved is in the scatter and not lost.
    off = means.vectors.astype(np.float64)[index]
    np.subtract(x, off, out=off)  # in its place, as the next one is: a device has little memory
    del x
    rows, exponents = _factor(off, min(rank, MOST_ROWS))
    whole = (off**2).sum(0) - (scaled(rows, exponents) ** 2).sum(0)
    residual = np.ceil(np.maximum(whole, 0) * 2.0**RESIDUAL_BITS) * 2.0**-RESIDUAL_BITS
    return Contribution(means, rows, exponents, residual.astype(np.float32))


def rooms(grid: Grid, classes: int, dim: int, ceilings: Ceilings) -> Rooms:
    """What a total may hold: means on the lineage's grid, and T, whose entries no sample's squared
    length and no covariance's trace exceeds.
    """
    largest = min(ceilings.norm, MEAN_STEPS * 2.0**grid.exponent)
    size = ceilings.norm**2 + ceilings.trace
    entries, weight = dim * (dim + 1) // 2, ceilings.samples
    return {
        MEANS: Room(classes, -grid.exponent, largest * weight, weight, (dim,)),
        SCATTER: Room(1, -2 * FINEST, size * weight, weight, (entries,)),
    }


def parts_of(own: Contribution) -> Parts:
    """As it travels: rows as bytes from 0, because the wire's small integers are not negative."""
    scatter: dict[str, Floats | Ints] = {
        "rows": own.rows.astype(np.int64) + 128,
        "exponents": own.exponents - LEAST,
        "residual": own.residual,
    }
    return {MEANS: own.means, SCATTER: Tensors(scatter)}


def from_parts(parts: Parts) -> Contribution:
    """From what came, checked."""
    means, scatter = parts.get(MEANS), parts.get(SCATTER)
    if not isinstance(means, Prototypes) or not isinstance(scatter, Tensors):
        raise FusionError(f"contribution: {MEANS} and {SCATTER} are due")
    if scatter.arrays.keys() != {"rows", "exponents", "residual"}:
        raise FusionError("contribution: rows, exponents and residual are due")
    rows, exponents = scatter["rows"], scatter["exponents"]
    residual = np.asarray(scatter["residual"], np.float32)
    if rows.ndim != 2 or rows.dtype.kind != "i" or (rows.size and not _byte(rows, 1)):
        raise FusionError("contribution: rows of whole numbers from 1 to 255 are due")
    if exponents.ndim != 1 or exponents.dtype.kind != "i" or not _byte(exponents, 0):
        raise FusionError("contribution: exponents of rows are due")
    small = (rows - 128).astype(np.int8)
    return Contribution(means, small, np.asarray(exponents, np.int64) + LEAST, residual)


def fold(own: Contribution, grid: Grid) -> Partial:
    """What it adds to a total: means by their counts, and the scatter about zero."""
    if not grid.holds(own.means.vectors):
        raise FusionError("contribution: means off the lineage's grid")
    means, entries = own.means, triangle(scatter(own))
    once = Sum.of([0], entries[None], 1)  # a sum already: its weight says how many samples it is of
    samples = np.array([own.samples], np.int64)
    return {
        MEANS: Sum.of(means.classes, means.vectors, np.asarray(means.counts, np.int64)),
        SCATTER: replace(once, weights=samples),
    }


def scatter(own: Contribution) -> Matrix:
    """T of the theory above, exactly."""
    factor = scaled(own.rows, own.exponents)
    rows = own.means.vectors.astype(np.float64)
    weighted = rows * np.asarray(own.means.counts, np.float64)[:, None]
    total: Matrix = factor.T @ factor
    total += weighted.T @ rows
    total[np.diag_indices(len(total))] += own.residual
    return total


def triangle(symmetric: Matrix) -> Matrix:
    """The upper triangle, row by row."""
    entries: Matrix = symmetric[np.triu_indices(len(symmetric))]
    return entries


def square(entries: ArrayLike, dim: int) -> Matrix:
    """The symmetric matrix of such a triangle."""
    whole = np.zeros((dim, dim))
    whole[np.triu_indices(dim)] = np.asarray(entries, np.float64)
    mirrored: Matrix = whole + np.triu(whole, 1).T
    return mirrored


def bytes_of(classes: int, dim: int, rank: int, samples: int) -> int:
    """About what a contribution weighs: the dial that `--bytes` turns."""
    rows = min(rank, max(samples - classes, 0), MOST_ROWS)
    return 2 * classes * dim + rows * (dim + 1) + 2 * dim + 8 * classes


def rank_within(budget: int, classes: int, dim: int) -> int:
    """The most rows that stay under so many bytes; 0: only the diagonal fits."""
    return max(0, min(MOST_ROWS, dim, (budget - bytes_of(classes, dim, 0, 0)) // (dim + 1)))


def _factor(off: Matrix, rank: int) -> tuple[NDArray[np.int8], Ints]:
    """The strongest directions of offᵀoff, each in whole numbers times its own power of two."""
    n, dim = off.shape
    if not rank or not n:
        return np.zeros((0, dim), np.int8), np.zeros(0, np.int64)
    # Of the smaller of the two Gram matrices: a device has fewer samples than features, or more.
    if n <= dim:
        values, vectors = np.linalg.eigh(off @ off.T)
        order = np.argsort(-values)[:rank]
        strong = (vectors[:, order].T @ off)[values[order] > values.max(initial=0) * 1e-12]
    else:
        values, vectors = np.linalg.eigh(off.T @ off)
        order = np.argsort(-values)[:rank]
        strong = vectors[:, order].T * np.sqrt(np.maximum(values[order], 0))[:, None]
    peaks = np.abs(strong).max(1, initial=0.0)
    says = peaks > 2.0 ** (FINEST - 1)  # what is smaller would be a row of zeros
    strong, peaks = strong[says], peaks[says]
    if not len(strong):
        return np.zeros((0, dim), np.int8), np.zeros(0, np.int64)
    exponents = np.ceil(np.log2(peaks / 127)).astype(np.int64)
    exponents = np.maximum(exponents, max(FINEST, int(exponents.max()) - SPREAD))
    rows = np.clip(np.rint(strong * 2.0 ** -exponents[:, None]), -127, 127)
    return rows.astype(np.int8), exponents


def scaled(rows: NDArray[np.int8], exponents: Ints) -> Matrix:
    """L: each row times its power of two."""
    factor: Matrix = rows * 2.0 ** exponents[:, None]
    return factor


def _near(exponents: Ints) -> bool:
    return bool(
        exponents.min() >= LEAST
        and exponents.max() <= 24
        and exponents.max() - exponents.min() <= SPREAD
    )


def _byte(values: Floats | Ints | Sequence[int], least: int) -> bool:
    array = np.asarray(values)
    return not array.size or bool(array.min() >= least and array.max() <= 255)
