"""The reference loops of the benchmarks are written independently: they must learn what ours
learns.
"""

from dataclasses import replace
from statistics import fmean

import pytest

from simulators.speed import reference
from simulators.speed.lab import ours, theirs


@pytest.mark.parametrize(
    ("method", "augment"), [("fedproto", "none"), ("fedproto", "crop-flip"), ("fedmps", "none")]
)
def test_ours_and_the_reference_reach_the_same_accuracy(method, augment, small_lab):
    config = small_lab(method, agents=6, common_start="yes")
    config = replace(config, training=replace(config.training, augment=augment))
    mine, plain = ours(config), theirs(config, reference.in_memory)
    pairs = [(mine(number), plain(number)) for number in range(1, 11)]
    seen, wanted = (fmean(column[-5:]) for column in zip(*pairs, strict=True))
    assert seen > 0.5
    assert seen == pytest.approx(wanted, abs=0.06)
