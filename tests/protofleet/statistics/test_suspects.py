"""Swapped labels are named, a camera's own light is not."""

import numpy as np
import pytest

from protofleet.statistics.closed_form import basis, moments
from protofleet.statistics.contribution import Grid, contribution, fold
from protofleet.statistics.suspects import suspects
from protofleet.values.sums import merge_all, subtract

GRID = Grid()
CENTRES = np.random.default_rng(0).normal(size=(6, 10)) * 2


def device(seed, classes=range(6), offset=3.0, names=None):
    """Twenty samples of each class, seen through a lens of one's own."""
    rng = np.random.default_rng(seed)
    lens = rng.normal(size=10) * offset
    y = np.repeat(list(classes), 20)
    x = CENTRES[y] + lens + rng.normal(size=(len(y), 10))
    return contribution(x, y if names is None else np.array(names)[y], GRID)


def named(own, *others):
    total = merge_all([fold(each, GRID) for each in (own, *others)])
    white = basis(moments(subtract(total, fold(own, GRID)))).whitened(0.3)
    return {(each.label, each.looks_like) for each in suspects(own, white)}


OTHERS = [device(seed) for seed in (1, 2, 3)]


@pytest.mark.parametrize("seed", range(10, 16))
def test_a_lens_alone_is_no_suspicion(seed):
    assert not named(device(seed), *OTHERS)


def test_two_classes_that_were_swapped_are_both_named_and_no_other():
    assert named(device(20, names=[1, 0, 2, 3, 4, 5]), *OTHERS) == {(0, 1), (1, 0)}


def test_a_class_under_the_name_of_one_the_device_lacks_is_named():
    wrong = device(21, classes=range(4), names=[0, 1, 2, 5, 4, 5])
    assert named(wrong, *OTHERS) == {(5, 3)}


def test_one_class_alone_is_not_judged_and_neither_is_one_that_nobody_else_has():
    assert not named(device(22, classes=[2], names=[0, 1, 4, 3, 4, 5]), *OTHERS)
    few = [device(seed, classes=range(3)) for seed in (5, 6)]
    assert not named(device(23), *few)
