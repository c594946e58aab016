"""How near a restored image is to a true one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Images = NDArray[np.float32]  # [..., height, width, channels], 0 to 1
Numbers = NDArray[np.float64]
WINDOW = 7
_C1, _C2 = 0.01**2, 0.03**2  # for values from 0 to 1


def ssim(one: Images, two: Images) -> Numbers:
    """Structural similarity (Wang et al. 2004) of images, pair by pair; leading axes broadcast."""
    # A flat window of 7 × 7 that lies whole in the image, sample variances, the mean over channels:
    # what scikit-image does where it is asked for nothing else. A few lines here, held to a loop
    # over windows and to that library's figures, instead of a library for one function.
    x, y = np.asarray(one, np.float64), np.asarray(two, np.float64)
    size = min(WINDOW, *x.shape[-3:-1])
    mean_x, mean_y = _windows(x, size), _windows(y, size)
    unbiased = size**2 / (size**2 - 1)
    var_x = unbiased * (_windows(x * x, size) - mean_x**2)
    var_y = unbiased * (_windows(y * y, size) - mean_y**2)
    both = unbiased * (_windows(x * y, size) - mean_x * mean_y)
    above = (2 * mean_x * mean_y + _C1) * (2 * both + _C2)
    below = (mean_x**2 + mean_y**2 + _C1) * (var_x + var_y + _C2)
    return np.asarray((above / below).mean((-3, -2, -1)))


def error(one: Images, two: Images) -> Numbers:
    """The mean squared difference of pixels, pair by pair."""
    apart = np.asarray(one, np.float64) - np.asarray(two, np.float64)
    return np.asarray((apart**2).mean((-3, -2, -1)))


def closest(image: Images, candidates: Images) -> int:
    """Which of the candidates differs least."""
    return int(np.argmin(error(image[None], candidates)))


def _windows(x: Numbers, size: int) -> Numbers:
    """Means over every window that lies whole in the image, by running sums."""
    sums = np.pad(x.cumsum(-3).cumsum(-2), [(0, 0)] * (x.ndim - 3) + [(1, 0), (1, 0), (0, 0)])
    low, high = sums[..., :-size, :, :], sums[..., size:, :, :]
    whole = high[..., size:, :] - high[..., :-size, :] - low[..., size:, :] + low[..., :-size, :]
    means: Numbers = whole / size**2
    return means
