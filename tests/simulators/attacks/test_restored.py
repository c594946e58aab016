"""The figures of images that are right, wrong, and a stranger's."""

import numpy as np
import pytest

from simulators.attacks.restored import Restoration, judged


def test_the_right_image_is_found_and_a_wrong_one_is_not():
    images = np.random.default_rng(0).random((6, 8, 8, 1)).astype(np.float32)
    right = Restoration(images[1], images[:2], images[2:4], images[5])
    wrong = Restoration(images[3], images[:2], images[2:4], images[0])
    figures = judged(2, [right])
    assert (figures.ssim, figures.error, figures.retrieved) == (pytest.approx(1), 0, 1)
    assert figures.stranger < 0.5
    both = judged(2, [right, wrong])
    assert (both.retrieved, both.chance, both.vectors) == (0.5, 0.5, 2)
    assert judged(2, [wrong]).stranger == pytest.approx(1)
