"""How well the total would classify a device's own samples had it never seen them: each part of
them in turn is taken out of the sums and classified by what is left.
"""

# Theory of operation
#
# A classifier cannot be tuned on samples that are in its own sums: at 1,280 features a covariance
# of a few hundred samples knows every one of them. What a device can do is to take its samples out
# of the total again, as it knows what it put in:
#
#   T' = T − T_own + T_rest        N', M' likewise
#
# T_own is the contribution that it sent, T_rest the one that it would have sent without a FOLDth
# of its samples: with their rows cut to the same rank, so that what is left is what the fleet would
# have had. That fold is then scored by the closed form of the primed sums, at each ρ of the grid.
#
# Why not leave out one by one, in closed form (Sherman and Morrison: two dot products a sample)?
# That takes uuᵀ out of S. A contribution of more samples than rows does not hold uuᵀ, but a part of
# it, and the rest in its diagonal: taken out whole, too much goes (S is over-corrected and ρ comes
# out too large), taken out as far as the rows hold it, too little (office-caltech, all labels: ρ =
# 0.003 was chosen where 1 to 3 are best). Folds cost FOLDS times eight linear systems, and choose
# the best ρ or its neighbour at every number of labels, on both sets of photographs.
#
# Folds are dealt by class, in an order of the features themselves: the same samples are in the same
# folds on every device, whatever their files are called. A sample whose class nobody else has, and
# its device only within the fold, cannot be scored and is not counted.
#
# An extractor that was trained on some of these very samples knows them, whatever is taken out of
# the sums: what may then be held out is `unseen`, the rows that it was not trained on. The others
# stay in the sums of every fold.

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protofleet.statistics.closed_form import SHRINKAGE, Belief, Moments
from protofleet.statistics.contribution import Contribution, Grid, contribution, scatter
from protofleet.values.prototypes import Ints

Matrix = NDArray[np.float64]

FOLDS = 5
TEMPERATURES = tuple(2.0 ** (step / 2) for step in range(-4, 23))
STEP = 2.0**-16  # of log-loss and distance, so that they add up
TIE = 64  # steps a sample that say nothing: a thousandth of a nat
CONFIDENCES, ODDITIES = 50, 400  # bins
WORST = 2.0**16  # of one sample's loss or distance: nobody's sum can run away
MOST = 4096  # samples of one device that are held out: more tell little, and cost


@dataclass(frozen=True)
class Choice:
    """What the fleet classifies by."""

    shrinkage: float
    temperature: float
    distance: float  # D̄ at that shrinkage


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Scores of samples that the sums had not seen (as `closed_form.head` would give them), whose
    class, and how far each lay from its own class.
    """

    scores: Matrix  # [n, K]; −∞ where a class was not there
    labels: Ints  # positions among the K
    distances: Matrix  # [n]


@dataclass(frozen=True, eq=False)
class Samples:
    """A device's own features and class ids, and the contribution that it sent of them."""

    features: Matrix
    labels: Ints
    own: Contribution
    grid: Grid
    unseen: NDArray[np.bool_] | None = None  # the rows that may be held out; None: all

    @staticmethod
    def of(
        features: ArrayLike, labels: ArrayLike, own: Contribution, grid: Grid | None = None
    ) -> Samples:
        """As a device has them."""
        x, y = np.asarray(features, np.float64), np.asarray(labels, np.int64)
        return Samples(x, y, own, grid or Grid())


@dataclass(frozen=True, eq=False)
class Fold:
    """Sums without some samples, and these."""

    moments: Moments
    features: Matrix
    labels: Ints  # class ids


def folds(of: Moments, own: Samples, share: float = 1.0) -> Iterator[Fold]:
    """Each part of the samples with what the fleet would know without it; and of the others with
    this share alone, if it is to be seen what fewer would come to.
    """
    total = of.within * of.samples + (of.means * of.counts[:, None]).T @ of.means
    total -= scatter(own.own)
    others = _Sums.of(of.classes, of.counts, of.means).plus(own.own, -1)
    dealt, stays = _dealt(own), _thinned(own, share)
    for number in range(FOLDS):
        out, rest, sums = dealt == number, (dealt != number) & stays, (total, others)
        if rest.any():
            # What was thinned out of the folds was sent all the same.
            less = contribution(own.features[rest], own.labels[rest], own.grid, len(own.own.rows))
            less = less.even() if own.own.is_even else less
            whole = scatter(less)
            whole += total  # in its place: each of these is d × d, and devices have little memory
            sums = whole, others.plus(less, 1)
        without = _moments(*sums)
        out &= np.isin(own.labels, without.classes)
        if out.any():
            yield Fold(without, own.features[out], own.labels[out])
        del without  # or it would be there beside the next one


@dataclass(frozen=True, eq=False)
class ScoredFold:
    """A fold's samples at one ρ, as far as D̄ is not needed for it: products with the classes'
    means about m₀, distances to the own class, whose class; and of each class that there is its
    place among all, its samples and how far it lies from m₀.
    """

    products: Matrix  # [n, k]
    distances: Matrix  # [n]
    labels: Ints  # [n], places among all classes
    columns: Ints  # [k]
    counts: Matrix  # [k]
    apart: Matrix  # [k]


def scored(part: Fold, classes: Ints, shrinkage: float) -> ScoredFold:
    """By class ids in `classes`."""
    of = part.moments
    means, points = of.means - of.centre, part.features - of.centre
    solved = np.linalg.solve(of.shrunk(shrinkage), np.concatenate([means, points]).T).T
    rows, at = solved[: len(means)], np.searchsorted(of.classes, part.labels)
    products, apart = points @ rows.T, (rows * means).sum(1)
    columns = np.searchsorted(classes, of.classes)
    # ‖x − M‖² under S⁻¹; S came in half precision, so a distance may end below nothing.
    own = (solved[len(means) :] * points).sum(1) - 2 * products[np.arange(len(at)), at] + apart[at]
    labels = columns[at].astype(np.int64)
    return ScoredFold(products, np.maximum(own, 0.0), labels, columns, of.counts, apart)


def held_out(parts: Sequence[ScoredFold], classes: Ints) -> HeldOut:
    """All folds' samples at one ρ."""
    distances = np.concatenate([np.zeros(0), *(part.distances for part in parts)])
    # The device's own D̄ stands for the fleet's, which is not known yet.
    usual = float(distances.mean()) if len(distances) else 0.0
    scores = [np.zeros((0, len(classes)))]
    for part in parts:
        belief = Belief.of(part.counts, part.apart, usual)
        row = np.full((len(part.labels), len(classes)), -np.inf)
        size = belief.shares**2 * part.apart
        row[:, part.columns] = part.products * belief.shares + 0.5 * (belief.credit - size)
        scores.append(row)
    labels = np.concatenate([np.zeros(0, np.int64), *(part.labels for part in parts)])
    return HeldOut(np.concatenate(scores), labels, distances)


def choose(samples: int, distances: Ints, losses: Ints) -> Choice | None:
    """The shrinkage and temperature of least log-loss; None where no sample could be held out."""
    if not samples:
        return None
    # Of settings that are equally good the one that claims least. A few samples that are all told
    # apart lose nothing anywhere, and the first of the grid would be the least shrunk.
    as_good = losses <= int(losses.min()) + samples * TIE
    row = int(np.flatnonzero(as_good.any(1))[-1])
    column = int(np.flatnonzero(as_good[row])[-1])
    distance = float(distances[row]) * STEP / samples
    return Choice(SHRINKAGE[row], TEMPERATURES[column], distance)


def log_loss(out: HeldOut, temperature: float) -> Matrix:
    """−log softmax of the own class, a number a sample."""
    scores = out.scores / temperature
    scores = scores - scores.max(1, keepdims=True)
    loss: Matrix = np.log(np.exp(scores).sum(1)) - scores[np.arange(len(scores)), out.labels]
    return loss


def steps(values: Sequence[float] | Matrix) -> int:
    """A sum in whole steps: each value is rounded by itself, so order does not matter."""
    return int(np.rint(np.minimum(np.asarray(values), WORST) / STEP).sum())


@dataclass(frozen=True, eq=False)
class _Sums:
    """Counts and sums by class id."""

    classes: Ints
    counts: Matrix
    sums: Matrix

    @staticmethod
    def of(classes: Ints, counts: Matrix, means: Matrix) -> _Sums:
        return _Sums(classes, counts, means * counts[:, None])

    def plus(self, own: Contribution, sign: int) -> _Sums:
        """With a contribution, or without it."""
        means, counts = own.means, np.asarray(own.means.counts, np.float64)
        classes = np.union1d(self.classes, means.classes)
        number, sums = np.zeros(len(classes)), np.zeros((len(classes), means.dim))
        at = np.searchsorted(classes, self.classes)
        number[at], sums[at] = self.counts, self.sums
        at = np.searchsorted(classes, means.classes)
        number[at] += sign * counts
        sums[at] += sign * counts[:, None] * means.vectors
        return _Sums(classes, number, sums)


def _moments(total: Matrix, of: _Sums) -> Moments:
    keep = of.counts > 0.5  # whole numbers, but for rounding
    counts = of.counts[keep]
    means = of.sums[keep] / counts[:, None]
    within: Matrix = (means * counts[:, None]).T @ means
    np.subtract(total, within, out=within)
    within /= max(float(counts.sum()), 1.0)
    whole: Matrix = within + within.T
    whole /= 2
    return Moments(of.classes[keep], counts, means, whole)


def _thinned(own: Samples, share: float) -> NDArray[np.bool_]:
    """This share of each class's samples, every so many of them."""
    order = np.lexsort((*own.features.T[:8][::-1], own.labels))
    labels = own.labels[order]
    turn = np.arange(len(order)) - np.searchsorted(labels, labels)
    stays = np.zeros(len(order), np.bool_)
    stays[order] = np.floor((turn + 1) * share) > np.floor(turn * share)
    return stays


def _dealt(own: Samples) -> Ints:
    """Which fold each sample is in; −1 for those that are in none: those that may not be held out,
    and what is beyond MOST of the others.
    """
    order = np.lexsort((*own.features.T[:8][::-1], own.labels))
    turn = np.full(len(order), -1)
    if own.unseen is not None:
        order = order[own.unseen[order]]
    labels = own.labels[order]
    first = np.searchsorted(labels, labels)
    turn[order] = (np.arange(len(order)) - first) % FOLDS
    if len(order) > MOST:
        spared = np.setdiff1d(order, order[np.linspace(0, len(order) - 1, MOST).astype(np.int64)])
        turn[spared] = -1
    return turn
