"""Exact sums as they travel: to the bit, whatever their numbers and shapes."""

import numpy as np
import pytest

from protofleet.errors import FusionError
from protofleet.values.limbs import packed, unpacked
from protofleet.values.prototypes import Tensors
from protofleet.values.sums import Sum


@pytest.mark.parametrize("scale", [2.0**-40, -1.0, 2.0**22, -(2.0**22)])
@pytest.mark.parametrize("shape", [(4,), (), (2, 3)])
def test_small_large_and_negative_numbers_have_room(scale, shape):
    rows = np.resize([1.0, 0.0, -1.0, 0.5], (2, *shape)) * scale
    part = Sum.of([3, 7], rows, 2**30)
    both = part.merge(part)
    again = unpacked("x", packed("x", both))
    assert again.digest() == both.digest()
    assert again.merge(part).minus(part).digest() == both.digest()


def test_bytes_that_say_nothing_are_left_out():
    part = Sum.of([0], np.array([[1.5, -2.25]]), 1)
    assert packed("x", part)["bytes"].shape == (1, 2, 2)
    assert packed("x", part)["first"].tolist() == [4]


def test_a_third_limb_and_what_is_no_sum_are_refused():
    part = Sum.of([0], np.full((1, 2), 2.0**22), 2**30)
    for _ in range(12):
        part = part.merge(part)
    with pytest.raises(FusionError, match="too large"):
        packed("x", part)
    with pytest.raises(FusionError, match="keys, weights, bytes"):
        unpacked("x", None)
    many = np.broadcast_to(np.int64(1), (1, 2**24 + 1, 1))
    zero = np.zeros(1, np.int64)
    with pytest.raises(FusionError, match="more than"):
        unpacked("x", Tensors({"keys": zero, "weights": zero + 1, "bytes": many, "first": zero}))
    one = packed("x", Sum.of([0], np.ones((1, 2)), 1))
    with pytest.raises(FusionError, match="whole numbers"):
        unpacked("x", Tensors({**one.arrays, "bytes": np.ones((1, 2, 2), np.float32)}))
