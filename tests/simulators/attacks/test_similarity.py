"""SSIM, held to its definition window by window and to scikit-image's figure."""

import numpy as np
import pytest

from simulators.attacks.similarity import closest, error, ssim


def by_windows(x, y):
    values = []
    for channel in range(x.shape[2]):
        for i in range(x.shape[0] - 6):
            for j in range(x.shape[1] - 6):
                a = x[i : i + 7, j : j + 7, channel].astype(np.float64).ravel()
                b = y[i : i + 7, j : j + 7, channel].astype(np.float64).ravel()
                (var_a, both), (_, var_b) = np.cov(a, b)
                values.append(
                    (2 * a.mean() * b.mean() + 1e-4)
                    * (2 * both + 9e-4)
                    / ((a.mean() ** 2 + b.mean() ** 2 + 1e-4) * (var_a + var_b + 9e-4))
                )
    return np.mean(values)


@pytest.mark.parametrize("shape", [(9, 12, 1), (8, 8, 3)])
def test_it_is_the_mean_over_windows_of_the_definition(shape):
    rng = np.random.default_rng(1)
    x = rng.random(shape).astype(np.float32)
    y = np.clip(x + 0.3 * rng.normal(size=shape), 0, 1).astype(np.float32)
    assert ssim(x, y) == pytest.approx(by_windows(x, y), abs=1e-9)


def test_it_is_what_scikit_image_makes_of_the_same_images():
    i, j = np.mgrid[:12, :10]
    x = ((i * 7 + j * 3) % 11 / 10).astype(np.float32)[..., None]
    y = ((i * 7 + j * 3 + i * j % 2) % 11 / 10).astype(np.float32)[..., None]
    # skimage.metrics.structural_similarity(x, y, data_range=1.0, channel_axis=2), version 0.26.0
    assert ssim(x, y) == pytest.approx(0.9382319, abs=1e-6)


def test_pairs_broadcast_and_an_image_is_closest_to_itself():
    images = np.random.default_rng(2).random((4, 8, 8, 1)).astype(np.float32)
    assert ssim(images[2][None], images).argmax() == 2
    assert ssim(images, images) == pytest.approx(np.ones(4))
    assert closest(images[3], images) == 3
    assert error(images[0], images[0] + np.float32(0.5)) == pytest.approx(0.25, abs=1e-6)
