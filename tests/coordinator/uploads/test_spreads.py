"""A factor's trace is that of the scatter which is folded, about the device's own means."""

import numpy as np
import pytest

from coordinator.uploads import spreads
from protofleet.statistics.contribution import Grid, contribution, parts_of, scatter
from protofleet.values.prototypes import Tensors


@pytest.mark.parametrize("rank", [0, 2, 64])
def test_the_trace_is_that_of_what_is_folded_less_the_means_share(rank):
    rng = np.random.default_rng(rank)
    own = contribution(rng.normal(size=(50, 6)) + 3, rng.integers(0, 2, 50), Grid(), rank)
    means = own.means.vectors.astype(np.float64)
    whole = np.trace(scatter(own)) - float(((means**2).sum(1) * own.means.counts).sum())
    assert spreads.trace(parts_of(own)) == pytest.approx(whole / 50)


def test_what_says_nothing_of_a_spread_has_none():
    assert spreads.trace({"weights": Tensors({"w": np.ones(3)})}) == 0
    assert spreads.trace({"scatter": Tensors({"rows": np.ones((1, 3))})}) == 0
    assert spreads.trace({}) == 0
