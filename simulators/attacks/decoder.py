"""A network that makes images of vectors, trained on public images: what an eavesdropper needs to
look at an upload.
"""

# It sees pairs of (vector, image) of other people's images only. Layers at a quarter and at half of
# the size, then pixels by rearrangement: a third of the cost of convolutions at full size, and no
# worse at equal time (measured on Fashion-MNIST and CIFAR-10).

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from protofleet.util import seeds
from simulators.attacks.similarity import Images

Say = Callable[[str], None]
Vectors = NDArray[np.floating[Any]]
_WIDTHS = (64, 32)
_BATCH, _RATE = 64, 2e-3
_LOOKS = 10  # points of the curve


@dataclass(frozen=True, eq=False)
class Decoder:
    """Trained; `curve` is the reconstruction loss on public images that it was not trained on."""

    net: nn.Module
    mean: NDArray[np.float32]
    scale: NDArray[np.float32]
    curve: tuple[tuple[int, float], ...]

    def images(self, vectors: Vectors) -> Images:
        """What these vectors look like."""
        return _seen(self.net, self._scaled(vectors))

    def _scaled(self, vectors: Vectors) -> Tensor:
        return _scaled(vectors, self.mean, self.scale)


class _Upward(nn.Module):
    """d numbers to height × width × channels."""

    def __init__(self, dim: int, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.shape = shape
        height, width, channels = shape
        # Of sides that four does not divide, the last rows are cut off.
        self.low = ((height + 3) // 4, (width + 3) // 4)
        first, second = _WIDTHS
        self.spread = nn.Linear(dim, first * self.low[0] * self.low[1])
        self.middle = nn.Conv2d(first, 4 * second, 3, padding=1)
        self.pixels = nn.Conv2d(second, 4 * channels, 3, padding=1)

    def forward(self, z: Tensor) -> Tensor:
        x = functional.relu(self.spread(z)).view(-1, _WIDTHS[0], *self.low)
        x = functional.relu(functional.pixel_shuffle(self.middle(x), 2))
        image: Tensor = functional.pixel_shuffle(self.pixels(x), 2)
        return image[:, :, : self.shape[0], : self.shape[1]]


def trained(
    vectors: Vectors, images: Images, steps: int, seed: int, say: Say = lambda words: None
) -> Decoder:
    """By mean squared error, as the feature space hijacking attack does; the last tenth is looked
    at only.
    """
    rng = seeds.generator(seed, "decoder")
    learned = len(images) - max(1, len(images) // 10)
    mean = vectors[:learned].mean(0).astype(np.float32)
    # A unit that is nearly always off would be blown up by its own tiny spread.
    spread = vectors[:learned].std(0)
    scale = np.maximum(spread, 0.01 * spread.max() + 1e-6).astype(np.float32)
    x = _scaled(vectors, mean, scale)
    y = torch.from_numpy(np.moveaxis(np.asarray(images, np.float32), -1, 1).copy())
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(rng.integers(2**62)))
        height, width, channels = images.shape[1:]
        net = _Upward(x.shape[1], (height, width, channels))
    steer = torch.optim.Adam(net.parameters(), _RATE)
    slope = torch.optim.lr_scheduler.OneCycleLR(steer, _RATE, total_steps=steps)
    curve = []
    for step in range(1, steps + 1):
        rows = torch.from_numpy(rng.integers(0, learned, _BATCH))
        loss = functional.mse_loss(net(x[rows]), y[rows])
        steer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        steer.step()
        slope.step()
        if step % max(1, steps // _LOOKS) == 0 or step == steps:
            off = _seen(net, x[learned:]) - np.asarray(images[learned:], np.float32)
            curve.append((step, round(float((off.astype(np.float64) ** 2).mean()), 6)))
            say(f"decoder: step {step} of {steps}, loss {curve[-1][1]:.4f}")
    return Decoder(net, mean, scale, tuple(curve))


def _scaled(vectors: Vectors, mean: NDArray[np.float32], scale: NDArray[np.float32]) -> Tensor:
    return torch.from_numpy(((np.asarray(vectors, np.float32) - mean) / scale).astype(np.float32))


def _seen(net: nn.Module, x: Tensor) -> Images:
    with torch.inference_mode():
        pictures = (
            torch.cat([net(x[i : i + 256]) for i in range(0, len(x), 256)]).clamp(0, 1).numpy()
        )
    return np.ascontiguousarray(np.moveaxis(pictures, 1, -1), np.float32)
