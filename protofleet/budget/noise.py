"""Discrete Gaussian noise (Canonne, Kamath and Steinke 2020): whole numbers k with a probability in
proportion to exp(−k²/2σ²). Of the operating system's randomness by OpenDP, which is exact; from a
seed for the laboratory, whose runs are to be repeated.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from protofleet.util.extras import check_installed
from protofleet.values.prototypes import Ints

Sampler = Callable[[float, int], Ints]  # σ, and how many numbers
_REACH = 12.0  # times σ: what lies beyond has a probability below 2⁻¹⁰³
_TABLE = 2.0**12  # of σ: above it a rounded Gaussian has the same masses but for 10⁻⁸ of each


def drawn(scale: float, count: int) -> Ints:
    """Nobody can guess or repeat it: for what leaves a device or a coordinator."""
    check_installed("opendp", "privacy", "budgets")
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
    gaussian = dp.m.make_gaussian(*space, scale=float(scale))
    return np.asarray(gaussian([0] * count), np.int64)


def in_pieces(sample: Sampler, between: Callable[[], None], piece: int = 20_000) -> Sampler:
    """The same, with a moment for something else now and then: exact noise is slow to draw."""

    def pieces(scale: float, count: int) -> Ints:
        drawn_so_far = []
        for start in range(0, max(count, 1), piece):
            drawn_so_far.append(sample(scale, min(piece, count - start)))
            between()
        return np.concatenate(drawn_so_far)

    return pieces


def seeded(rng: np.random.Generator) -> Sampler:
    """The same distribution from a generator, to a float's precision: for measuring alone, since
    who knows the seed knows the noise.
    """

    def sample(scale: float, count: int) -> Ints:
        if scale > _TABLE:
            return np.rint(scale * rng.standard_normal(count)).astype(np.int64)
        reach = int(np.ceil(_REACH * scale)) + 1
        values = np.arange(-reach, reach + 1)
        masses = np.exp(-0.5 * (values / scale) ** 2)
        edges = np.cumsum(masses / masses.sum())
        return np.searchsorted(edges, rng.random(count)).clip(0, 2 * reach) - reach

    return sample
