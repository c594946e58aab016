"""The classifier that a total makes: discriminants that know how sure each mean is.

Everything here is a function of sums, so it is the same wherever the sums are.
"""

# Theory of operation
#
# From the total (counts N_c, means M_c, scatter T about zero, N samples in all):
#
#   S   = (T − Σ N_c M_c M_cᵀ) / N                what samples do about their class's mean
#   S_ρ = S + ρ · (tr S / d) · I                  shrunk; ρ is chosen by the samples (held_out)
#   m₀  = the mean of the class means             where a class lies of which nothing is known
#   δ²  = mean of ‖M_c − m₀‖² − D̄/N_c             how far classes lie from there (by S_ρ⁻¹)
#   g_c = δ² / (δ² + D̄/N_c)                       how much of a mean is believed
#   μ̃_c = m₀ + g_c (M_c − m₀)
#   d_c(f) = (f − μ̃_c)ᵀ S_ρ⁻¹ (f − μ̃_c) − g_c² D̄/N_c − (1 − g_c)² δ²
#
# and the class is the one of the least d. D̄ is what a sample of the fleet has as its distance to
# its own class when it is held out. A mean of five samples lies off the class's true centre by a
# fifth of a sample's own scatter (D̄/N_c), and being drawn towards m₀ moves it by (1 − g)²δ² more,
# so every sample of that class is that much too far from it: the last two terms give back what is
# expected to be too much. Without them a class of five photos beside classes of hundreds is never
# answered (2 % of its photos). There is no log-volume term: a class's own spread is not known from
# five photos.
#
# g is the share of what is seen of a mean that is not chance (empirical Bayes; Efron and Morris
# 1973): with it what is given back is δ²(1 − g), and a sample of a class of five scores on average
# what one of a class of hundreds does, ½δ². So both are compared, and called unknown, alike.
# No constant in it was fitted to data. Two that were chosen on photographs of objects (a prior of 8
# samples, the first term given back twice) took 0.10 from what a new class came to on
# Fashion-MNIST.
#
# δ² is of the classes of usual size: of a small one it is mostly chance. Where hardly anything
# sets classes apart from it, a mean of BELIEVED samples is believed by half all the same.
#
# All of d_c that depends on f is linear but for fᵀ S⁻¹ f, which all classes share. So a device
# needs a head alone: with z = f − m₀ and a_c = μ̃_c − m₀,
#
#   score_c(f) = a_cᵀ S⁻¹ z − ½ a_cᵀ S⁻¹ a_c + ½ δ² (1 − g_c)
#
# which is the log-likelihood of class c over that of a class at m₀. Softmax of score / T is the
# probability; and a sample whose best score is low is like no class more than like the middle of
# all, which is what `unknown` means. T, and what is low, come from samples held out.

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from protofleet.statistics.contribution import MEANS, SCATTER, square
from protofleet.values.prototypes import Floats, Head, Ints
from protofleet.values.sums import Partial, Sum

Matrix = NDArray[np.float64]

BELIEVED = 32.0
USUAL = 20.0  # samples from which a class tells how far classes lie apart
SHRINKAGE = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # the values of ρ that are tried


@dataclass(frozen=True, eq=False)
class Moments:
    """A total as floats: what the formulas above call N_c, M_c, S and m₀."""

    classes: Ints
    counts: Matrix  # [K]
    means: Matrix  # [K, d]
    within: Matrix  # [d, d], S

    @property
    def samples(self) -> float:
        """N."""
        return float(self.counts.sum())

    @property
    def centre(self) -> Matrix:
        """m₀."""
        centre: Matrix = self.means.mean(0)
        return centre

    @property
    def size(self) -> float:
        """tr S / d, the variance that is usual."""
        return max(float(np.trace(self.within)) / len(self.within), 1e-12)

    def shrunk(self, shrinkage: float) -> Matrix:
        """S_ρ."""
        floor: Matrix = self.within.copy()
        floor[np.diag_indices(len(floor))] += shrinkage * self.size
        return floor


@dataclass(frozen=True, eq=False)
class Basis:
    """The eigenvectors of S, so that every ρ is a division: made once a version."""

    moments: Moments
    values: Matrix  # [d]
    vectors: Matrix  # [d, d]

    def whitened(self, shrinkage: float) -> Whitened:
        """Space in which S_ρ is the identity."""
        floor = shrinkage * self.moments.size
        return Whitened(self.moments, self.vectors / np.sqrt(np.maximum(self.values, 0) + floor))


@dataclass(frozen=True, eq=False)
class Whitened:
    """Means where a distance is a squared difference."""

    moments: Moments
    map: Matrix  # [d, d]

    def of(self, features: Matrix | Floats) -> Matrix:
        """f − m₀, whitened."""
        offset: Matrix = (np.asarray(features, np.float64) - self.moments.centre) @ self.map
        return offset


@dataclass(frozen=True, eq=False)
class Belief:
    """How much of each class's mean is believed (g), and what is given back for the rest."""

    shares: Matrix
    credit: Matrix

    @staticmethod
    def of(counts: Matrix, apart: Matrix, distance: float) -> Belief:
        """From samples, ‖M − m₀‖² of each class, and D̄."""
        usual = counts >= min(USUAL, float(np.median(counts)))
        between = float((apart - distance / counts)[usual].mean())
        between = max(between, distance / BELIEVED, 1e-9)
        shares = between / (between + distance / counts)
        return Belief(shares, between * (1 - shares))


def moments(total: Partial) -> Moments | None:
    """Of a total; None while nobody contributed."""
    means, scatter = total.get(MEANS), total.get(SCATTER)
    if not isinstance(means, Sum) or not isinstance(scatter, Sum) or not means.weights.any():
        return None
    keep = means.weights > 0
    counts, rows = means.weights[keep].astype(np.float64), means.mean()[keep]
    whole = square(scatter.total()[0], rows.shape[1])
    within = (whole - (rows * counts[:, None]).T @ rows) / counts.sum()
    return Moments(means.keys[keep], counts, rows, (within + within.T) / 2)


def basis(of: Moments) -> Basis:
    """Its eigenbasis."""
    values, vectors = np.linalg.eigh(of.within)
    return Basis(of, values, vectors)


def whitened(of: Moments, shrinkage: float) -> Whitened:
    """Space in which one S_ρ is the identity, in a tenth of the time of an eigenbasis."""
    lower = np.linalg.cholesky(of.shrunk(shrinkage))
    return Whitened(of, np.linalg.inv(lower).T)


def head(of: Moments, shrinkage: float, distance: float) -> Head:
    """The scores above as rows and biases on plain features."""
    offset = of.means - of.centre
    # One solution for a few rows: an eigenbasis takes thirty times as long.
    rows: Matrix = np.linalg.solve(of.shrunk(shrinkage), offset.T).T.astype(np.float64)
    apart = (rows * offset).sum(1)
    belief = Belief.of(of.counts, apart, distance)
    weight = belief.shares[:, None] * rows
    bias = 0.5 * (belief.credit - belief.shares**2 * apart) - weight @ of.centre
    return Head(of.classes, _coarse(weight), _coarse(bias))


def _coarse(values: Matrix) -> Floats:
    """To 2⁻¹⁸ of each value: linear algebra of another machine, or with more threads, differs in
    its last bits, and the same total shall have the same hash.
    """
    share, exponent = np.frexp(values)
    rounded: Floats = np.ldexp(np.rint(share * 2.0**18) * 2.0**-18, exponent).astype(np.float32)
    return rounded
