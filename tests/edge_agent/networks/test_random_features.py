"""The backbone that never learns: the same everywhere, as wide for any input, and what its formula
says.
"""

import numpy as np
import pytest
import torch

from edge_agent.networks import random_features
from edge_agent.networks.net import build_net
from protofleet.contract import Contract, Input

KINDS = [
    Input("image", (32, 32, 3)),
    Input("image", (28, 28, 1)),
    Input("image", (8, 8, 1)),
    Input("image", (3, 5, 1)),
    Input("image", (97, 60, 3)),
    Input("vector", (17,)),
    Input("series", (50, 3)),
]


def net(kind, seed=1):
    return build_net(
        Contract("f", "r", 0, ("a", "b"), kind, random_features.WIDTH), "fixed", {}, seed
    ).eval()


def inputs(kind, n=4):
    shape = (kind.shape[2], *kind.shape[:2]) if kind.kind == "image" else kind.shape
    return torch.randn(n, *shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_kind_of_input_becomes_as_many_numbers_the_same_from_one_seed(kind):
    x = inputs(kind)
    with torch.no_grad():
        z = net(kind).features(x)[1]
        assert z.shape == (4, random_features.WIDTH)
        assert torch.isfinite(z).all()
        assert torch.equal(z, net(kind).features(x)[1])
        assert not torch.equal(z, net(kind, 2).features(x)[1])


def test_an_even_image_is_nothing_to_its_filters_but_at_the_edge():
    kind = Input("image", (32, 32, 3))
    with torch.no_grad():
        u, _ = net(kind).features(torch.ones(1, 3, 32, 32))
    assert u.view(2 * random_features.FILTERS, 32, 32)[:, 2:-2, 2:-2].abs().max() < 1e-5


@pytest.mark.parametrize("side", [28, 32, 8, 31])
def test_the_root_of_means_over_a_grid_of_what_both_signs_of_a_filter_see(side):
    kind = Input("image", (side, side, 1))
    x, device = inputs(kind, 1), net(kind)
    step = side // 3
    field = side - 2 * step
    with torch.no_grad():
        z = device.features(x)[1].numpy().reshape(2 * random_features.FILTERS, 3, 3)
        seen = torch.nn.functional.conv2d(x, device.backbone["low"][1].weight, padding=2)[0].numpy()
    both = np.concatenate([np.maximum(seen, 0), np.maximum(-seen, 0)])
    for i in range(3):
        for j in range(3):
            patch = both[:, i * step : i * step + field, j * step : j * step + field]
            np.testing.assert_allclose(
                z[:, i, j], np.sqrt(patch.mean((1, 2)) + 1e-4), rtol=1e-4, atol=1e-5
            )
