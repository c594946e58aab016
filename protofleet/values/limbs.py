"""Exact sums as they travel: the bytes of their numbers, without those that say nothing."""

# Theory of operation
#
# A total of 1,280 features has 820,000 entries of two limbs, 13 MB as they are. Most of it is
# zeros: scatter lies on a grid of 2⁻²⁴, and its numbers are far below 2⁶². Both limbs as one number
# in two's complement are twelve bytes, of which the lowest that are zero everywhere and the highest
# that only repeat the sign are left out: five are left, 4 MB.
#
# What is read is held to what honest sums are: rows rise, weights are above 0, limbs are carried,
# and no third limb.

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from protofleet.errors import FusionError
from protofleet.values.prototypes import Part, Tensors
from protofleet.values.sums import Sum, as_tensors, from_tensors

Bytes = NDArray[np.uint8]
_LIMBS = 12  # bytes of a number: four of the low limb, eight of the high one
_MOST = 2**24  # numbers in a sum that comes from outside: each takes 28 bytes while it is read
_HIGHEST = 2**62  # of a high limb: what `values.sums` has without a third


def packed(name: str, part: Sum) -> Tensors:
    """Rows by their bytes, without those that say nothing."""
    arrays = as_tensors({name: part}).arrays
    if f"{name}.top" in arrays:
        raise FusionError(f"{name}: a number is too large to be told upward")
    low, high = np.asarray(arrays[f"{name}.low"]), np.asarray(arrays[f"{name}.high"])
    limbs = np.empty((*low.shape, _LIMBS), np.uint8)
    limbs[..., :4] = low.astype("<u4")[..., None].view(np.uint8)
    limbs[..., 4:] = high.astype("<i8")[..., None].view(np.uint8)
    first, last = 0, _LIMBS - 1
    while first < last and not limbs[..., first].any():
        first += 1
    # The highest byte that is left says the sign, and those above it repeat that.
    while last > first and np.array_equal(limbs[..., last], _sign(limbs[..., last - 1])):
        last -= 1
    return Tensors(
        {
            "keys": np.asarray(arrays[f"{name}.keys"], np.int64),
            "weights": np.asarray(arrays[f"{name}.weights"], np.int64),
            "bytes": np.ascontiguousarray(limbs[..., first : last + 1]).astype(np.int64),
            "first": np.array([first], np.int64),
        }
    )


def unpacked(name: str, part: Part | None) -> Sum:
    """And back, checked."""
    if not isinstance(part, Tensors) or part.arrays.keys() != {"keys", "weights", "bytes", "first"}:
        raise FusionError(f"{name}: keys, weights, bytes and their first are due")
    arrays = {key: np.asarray(array) for key, array in part.arrays.items()}
    if any(array.dtype.kind not in "iu" for array in arrays.values()):
        raise FusionError(f"{name}: whole numbers are due")
    keys, weights, some, first = (arrays[key] for key in ("keys", "weights", "bytes", "first"))
    if keys.ndim != 1 or weights.shape != keys.shape or not keys.size:
        raise FusionError(f"{name}: rows are due, each with its key and weight")
    if keys[0] < 0 or np.any(np.diff(keys) <= 0) or keys[-1] >= 2**40:
        raise FusionError(f"{name}: keys that rise are due")
    if weights.min() <= 0 or weights.max() >= 2**40:
        raise FusionError(f"{name}: each row's samples are due")
    if math.prod(some.shape[:-1]) > _MOST:
        raise FusionError(f"{name}: more than {_MOST} numbers")
    if some.ndim < 2 or len(some) != len(keys) or not some.size:
        raise FusionError(f"{name}: the bytes of every row are due")
    if first.shape != (1,) or first[0] < 0 or first[0] + some.shape[-1] > _LIMBS:
        raise FusionError(f"{name}: {some.shape[-1]} bytes from the {first.tolist()}th")
    if some.min() < 0 or some.max() > 255:
        raise FusionError(f"{name}: bytes are due")
    at = int(first[0])
    limbs, end = np.zeros((*some.shape[:-1], _LIMBS), np.uint8), at + some.shape[-1]
    limbs[..., at:end] = some
    limbs[..., end:] = _sign(limbs[..., end - 1])[..., None]
    low = np.ascontiguousarray(limbs[..., :4]).view("<u4")[..., 0].astype(np.int64)
    high = np.ascontiguousarray(limbs[..., 4:]).view("<i8")[..., 0].astype(np.int64)
    if max(int(high.max()), -int(high.min())) >= _HIGHEST:
        raise FusionError(f"{name}: a number that no sum of honest devices has")
    limbs_of = {"keys": keys, "weights": weights, "high": high, "low": low}
    arrays_of = {f"{name}.{limb}": array.astype(np.int64) for limb, array in limbs_of.items()}
    whole = from_tensors(Tensors(arrays_of))
    one = whole[name]
    assert isinstance(one, Sum)
    return one


def _sign(highest: Bytes) -> Bytes:
    """What all bytes above these are."""
    above: Bytes = np.where(highest & 0x80, 0xFF, 0).astype(np.uint8)
    return above
