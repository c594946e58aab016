"""Points spread over the unit sphere by mutual repulsion: the Thomson problem as ProtoNorm solves
it, in numpy.

Pairwise differences are never formed: Σ_k w_jk (c_j − c_k) is (Σ_k w_jk) c_j − (W C)_j, two matrix
products.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Points = NDArray[np.float64]
Force = Callable[[Points], Points]
Stop = Literal["tangential", "paper"]

# Points nearer than this count as one. ‖c − c'‖² is taken as 2 − 2⟨c, c'⟩, whose error is about
# 2⁻⁵²; at 10⁻⁸, the square of this, seven digits are left of it. Below, the force is capped, not
# infinite.
_SAME = 1e-4
# How far a point that coincides with another is moved before the first step: far enough that their
# force has a direction, and near enough that it begins among the same neighbours.
_NUDGE = 0.1
# The tangential share of the force below which nothing moves any more: at the rate and momentum
# below that is 10⁻⁵ of a radian or so a step, less than half precision on the wire can tell.
_STILL = 1e-5


def units(points: ArrayLike, rng: np.random.Generator) -> Points:
    """Every row at length one; a row of zeros has no direction and is given one."""
    # Under 10⁻¹² a length is rounding, and dividing by it would make a direction of noise: drawn at
    # random it is at least the same for everybody, and evenly so.
    rows = np.array(points, np.float64)
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    lost = length[:, 0] < 1e-12
    rows[lost] = rng.standard_normal((int(lost.sum()), rows.shape[1]))
    length[lost] = np.linalg.norm(rows[lost], axis=1, keepdims=True)
    return np.asarray(rows / length)


def forces(points: Points, fixed: Points | None = None) -> Points:
    """F_j = Σ_k (c_j − c_k) / ‖c_j − c_k‖² on unit points (ProtoNorm (11)); fixed points push and
    do not move.
    """
    # w_jk = 1/‖c_j − c_k‖² in one K × K array, worked on in place. The literal K × K × d
    # differences take 108 times as long at K = 1,000. Each c_j is its own first neighbour at
    # distance zero: the floor makes its weight large and finite, and the diagonal then takes it
    # out.
    others = points if fixed is None else np.concatenate([points, fixed])
    weights = points @ others.T
    np.multiply(weights, -2.0, out=weights)
    np.add(weights, 2.0, out=weights)
    np.maximum(weights, _SAME**2, out=weights)
    np.reciprocal(weights, out=weights)
    np.fill_diagonal(weights, 0.0)
    return np.asarray(weights.sum(1)[:, None] * points - weights @ others)


def iterations(
    points: Points, force: Force = forces, momentum: float = 0.9, rate: float = 0.1
) -> Iterator[Points]:
    """The points after each step, without end (ProtoNorm (12)-(14)); the rate falls by 5 % every
    ten steps.
    """
    # μ = 0.9 and η = 0.1 are the paper's. The velocity is not projected onto the sphere; the
    # division by the length takes the radial part of a step out again, and with it part of the
    # step: the force has a radial part of (K − 1)/2, so steps along the sphere get short where K is
    # large.
    velocity = np.zeros_like(points)
    for t in itertools.count():
        # The authors' code lowers the rate after steps 0, 10, 20, ...: −(−t // 10) is t/10, rounded
        # up.
        velocity = momentum * velocity + rate * 0.95 ** -(-t // 10) * force(points)
        moved = points + velocity
        points = moved / np.linalg.norm(moved, axis=1, keepdims=True)
        yield points


def align(
    vectors: ArrayLike,
    rng: np.random.Generator,
    *,
    stop: Stop = "tangential",
    most: int = 500,
    fixed: ArrayLike | None = None,
) -> tuple[Points, int]:
    """The rows' directions, spread out, and the number of steps it took; one row alone stays where
    it is.
    """
    others = None if fixed is None or not len(np.asarray(fixed)) else units(fixed, rng)
    points = _apart(units(vectors, rng), others, rng)
    if len(points) + (0 if others is None else len(others)) < 2:
        return points, 0
    settled = _paper_rule() if stop == "paper" else _tangential_rule
    force = np.zeros_like(points)

    # The rule needs the force at the points *before* the step, which the iteration has just worked
    # out: kept from there rather than computed twice, as it is all the cost.
    def recorded(at: Points) -> Points:
        nonlocal force
        force = forces(at, others)
        return force

    steps = 0
    for after in itertools.islice(iterations(points, recorded), most):
        steps += 1
        still = settled(points, force)
        points = after
        if still:
            break
    return points, steps


def gaps(points: ArrayLike) -> Points:
    """Each row's distance to the nearest other row (FedTGP's margins); infinite for a row alone."""
    # About the mean, since ‖a‖² + ‖b‖² − 2a·b cancels to nothing for near points far from zero.
    rows = np.asarray(points, np.float64)
    rows = rows - rows.mean(0)
    square = (rows**2).sum(1)
    distances = np.maximum(square[:, None] + square[None, :] - 2.0 * rows @ rows.T, 0.0)
    np.fill_diagonal(distances, np.inf)
    return np.asarray(np.sqrt(distances.min(1)))


def _apart(points: Points, fixed: Points | None, rng: np.random.Generator) -> Points:
    """Points that coincide with an earlier one, moved a little: there the force has no
    direction.
    """
    # Fixed points come first, so that they are earlier than any that may move. `tril` keeps each
    # row's products with earlier rows only, so of two that coincide the later one moves, and the
    # first row never does. Two points at distance ε have the cosine 1 − ε²/2: the test is a little
    # generous.
    everything = points if fixed is None else np.concatenate([fixed, points])
    nearest = np.tril(everything @ everything.T, -1).max(1)[len(everything) - len(points) :]
    clash = nearest > 1.0 - _SAME**2
    nudge = rng.standard_normal((int(clash.sum()), points.shape[1])) / np.sqrt(points.shape[1])
    points[clash] = units(points[clash] + _NUDGE * nudge, rng)
    return points


def _tangential_rule(at: Points, force: Points) -> bool:
    """What of the force moves a point along the sphere has vanished beside the radial part, which
    is (K − 1)/2.
    """
    # ⟨F_j, c_j⟩ = Σ_k (1 − ⟨c_j, c_k⟩) / (2 − 2⟨c_j, c_k⟩) = (K − 1)/2 wherever the points are. It
    # is what the authors' rule mostly sees, which therefore stops while the points still move.
    radial = np.einsum("jd,jd->j", force, at)
    along = np.linalg.norm(force - radial[:, None] * at, axis=1)
    return bool(along.max() <= _STILL * np.abs(radial).max())


def _paper_rule() -> Callable[[Points, Points], bool]:
    """The mean force norm, rounded to 4 places, has been the same ten times running, counted from
    step 10 on.
    """
    # As the authors' code has it (the paper has an ε without a value). NaN is equal to nothing, so
    # the first comparison never counts.
    step, same, last = 0, 0, np.nan

    def settled(at: Points, force: Points) -> bool:
        nonlocal step, same, last
        now = round(float(np.linalg.norm(force, axis=1).mean()), 4)
        same = same + 1 if step > 10 and now == last else 0
        step, last = step + 1, now
        return same == 10

    return settled
