"""The backbone that never learns: seeded random filters, the same on every device that derives them
from one seed.

Responses are kept by sign (what a filter and its negative see), averaged over a 3 × 3 grid and
their root is taken, which evens out a few strong edges. After Coates and Ng (2011): for few
samples, such features and a good linear classifier are hard to beat.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from protofleet.contract import Input

FILTERS, GRID = 28, 3
WIDTH = 2 * FILTERS * GRID * GRID  # both signs of each filter on every field: 504
# Under the root, whose slope is infinite at zero: rounding there would move features by more than
# it is.
_FLOOR = 1e-4


class BothSigns(nn.Module):
    """What is above zero, and beside it what is below, as positive numbers."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([torch.relu(x), torch.relu(-x)], 1)


class Root(nn.Module):
    """The square root of numbers that are not negative, without its steepness at nothing, which is
    rounding there.
    """

    def forward(self, x: Tensor) -> Tensor:
        return torch.sqrt(x + _FLOOR)


def stages(input: Input) -> tuple[nn.Sequential, nn.Sequential]:
    """Both stages, WIDTH numbers wide for any input: filters over images and series, sums over
    plain vectors.
    """
    filters: nn.Module
    grid: nn.Module
    if input.kind == "image":
        filters, grid = (
            nn.Conv2d(input.shape[2], FILTERS, 5, padding=2, bias=False),
            _grid(*input.shape[:2]),
        )
    else:
        filters, grid = (
            nn.Linear(int(torch.Size(input.shape).numel()), WIDTH // 2, bias=False),
            nn.Identity(),
        )
    _draw(filters)
    flat = nn.Flatten() if input.kind != "image" else nn.Identity()
    low = nn.Sequential(flat, filters, BothSigns())
    return low, nn.Sequential(grid, nn.Flatten(), Root())


def _grid(height: int, width: int) -> nn.AvgPool2d:
    """Averages over GRID × GRID fields that cover the image and overlap by what does not divide."""
    steps = [max(1, side // GRID) for side in (height, width)]
    fields = [
        max(1, side - (GRID - 1) * step) for side, step in zip((height, width), steps, strict=True)
    ]
    return nn.AvgPool2d((fields[0], fields[1]), (steps[0], steps[1]))


def _draw(filters: nn.Module) -> None:
    """Normal draws without a mean over an image's patch, so that an even patch is nothing; of
    length one each.
    """
    with torch.no_grad():
        for weight in filters.parameters():
            weight.normal_()
            rows = weight.view(len(weight), -1)
            if weight.dim() == 4:
                rows.sub_(rows.mean(1, keepdim=True))
            rows.div_(rows.norm(dim=1, keepdim=True))
