"""Numpy arrays as RFC 8746 typed arrays: what dtype each travels in, and what is checked when it
comes back.

One-dimensional arrays are a plain typed array, all others tag 40 around (dims, typed array). int8
is a map {q: rows, s: one float32 scale a row}, because a typed array has no place for scales.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from cbor2 import CBORTag
from numpy.typing import NDArray

from protofleet.errors import WireError

Precision = Literal["half", "float32", "int8"]

DTYPES = {
    tag: np.dtype(name)
    for tag, name in {64: "|u1", 72: "|i1", 79: "<i8", 84: "<f2", 85: "<f4"}.items()
}
TAG_OF = {dtype: tag for tag, dtype in DTYPES.items()}
HALF_PEAK = 60_000.0  # beyond it half precision is too close to its overflow
# Outside these, 127 scales overflow or a scale is no normal float32. The peak is a round scale
# times 127, so that rounding scales up does not carry a value across it.
INT8_PEAK, INT8_LEAST = 127 * 2.0**120, 1e-30
AXES = 8
# Half precision by its bits: a look at this takes half the time of numpy's cast, and no mode of the
# processor matters.
BITS = np.dtype("<u2")
HALVES = np.arange(2**16, dtype=BITS).view("<f2").astype(np.float32)
HALVES[0x8000] = 0.0  # and not −0.0


def encode_array(array: NDArray[Any], precision: Precision, where: str) -> Any:
    """A CBOR value for the array; `precision` is for floats of one or more dimensions, integers
    stay exact.
    """
    if array.ndim > AXES:
        raise WireError(f"{where}: {array.ndim} dimensions, at most {AXES} are allowed")
    if array.dtype.kind in "iu":
        small = not array.size or (array.min() >= 0 and array.max() <= 255)
        return _typed(array.astype("|u1" if small else "<i8"))
    peak = (
        float(np.abs(array).max()) if array.size and array.ndim and precision != "float32" else 0.0
    )
    if precision == "int8" and array.ndim == 2 and peak <= INT8_PEAK:
        return _scaled_rows(array)
    if precision == "half" and array.ndim and peak <= HALF_PEAK:
        half = array.astype("<f2")
        bits = half.view("<u2")
        bits[bits == 0x8000] = 0  # tiny negative numbers round to −0.0
        return _typed(half)
    return _typed(array.astype("<f4") + np.float32(0.0))


def decode_array(raw: Any, where: str) -> NDArray[Any]:
    """The array behind a CBOR value: float32, or integers as they travelled; whose value it is
    checks its numbers.
    """
    if isinstance(raw, dict):
        return _unscaled_rows(raw, where)
    array = _untyped(raw, where)
    if array.dtype.itemsize == 1 and array.dtype.kind == "i":
        raise WireError(f"{where}: int8 travels as q with its scales s")
    return widened(array)


def widened(array: NDArray[Any]) -> NDArray[Any]:
    """Floats as float32 of their own, −0.0 as 0.0; integers as they are."""
    if array.dtype.kind != "f":
        return array
    if array.itemsize == 2:
        return HALVES.take(array.view(BITS), mode="wrap")
    with np.errstate(invalid="ignore"):  # who makes a value of it says what is not finite
        plain: NDArray[Any] = np.add(array, np.float32(0.0), dtype=np.float32)
    return plain


def wire_dtype(raw: Any) -> str:
    """What an accepted CBOR value travelled as, for people."""
    if isinstance(raw, dict):
        return "int8 rows"
    return DTYPES[(raw.value[1] if raw.tag == 40 else raw).tag].name


def _typed(array: NDArray[Any]) -> CBORTag:
    typed = CBORTag(TAG_OF[array.dtype], array.tobytes())
    return typed if array.ndim == 1 else CBORTag(40, [list(array.shape), typed])


def _untyped(raw: Any, where: str) -> NDArray[Any]:
    dims = None
    if isinstance(raw, CBORTag) and raw.tag == 40:
        if len(raw.value) != 2:
            raise WireError(f"{where}: an array of dims and values has {len(raw.value)} members")
        dims, raw = raw.value
        if not isinstance(dims, (list, tuple)) or not all(type(n) is int and n >= 0 for n in dims):
            raise WireError(f"{where}: dims are not a list of sizes")
        if len(dims) == 1 or len(dims) > AXES:
            raise WireError(f"{where}: {len(dims)} dims, 0 or 2 to {AXES} are allowed")
    if not isinstance(raw, CBORTag) or raw.tag not in DTYPES:
        raise WireError(f"{where}: not an array")
    dtype = DTYPES[raw.tag]
    if len(raw.value) % dtype.itemsize:
        raise WireError(
            f"{where}: {len(raw.value)} bytes are no whole number of {dtype.name} values"
        )
    flat = np.frombuffer(raw.value, dtype)
    if dims is None:
        return flat
    # An empty array's other sides are bounded too: numpy multiplies them.
    if math.prod(dims) != flat.size or (not flat.size and math.prod(n or 1 for n in dims) > 2**40):
        raise WireError(f"{where}: {flat.size} values for dims {list(dims)}")
    return flat.reshape(dims)


def _scaled_rows(array: NDArray[Any]) -> dict[str, CBORTag]:
    peaks = np.abs(array).max(axis=1, initial=0.0)
    scales = np.where(peaks < INT8_LEAST, 0, peaks / np.float32(127)).astype("<f4")
    # Rounded up to 17 bits, a scale times any int8 is exact in float32: encoding what was decoded
    # changes nothing.
    scales = ((scales.view("<u4") + np.uint32(0x7F)) & np.uint32(0xFFFFFF80)).view("<f4")
    rows = np.rint(array / np.where(scales == 0, np.float32(np.inf), scales)[:, None])
    return {"q": _typed(rows.astype("|i1")), "s": _typed(scales)}


def _unscaled_rows(raw: dict[str, Any], where: str) -> NDArray[np.float32]:
    if raw.keys() != {"q", "s"}:
        raise WireError(f"{where}: an array in int8 has the keys q and s and no others")
    rows, scales = _untyped(raw["q"], f"{where}.q"), _untyped(raw["s"], f"{where}.s")
    if rows.dtype != np.int8 or scales.dtype != np.dtype("<f4"):
        raise WireError(f"{where}: q is not int8 or s is not float32")
    if rows.ndim != 2 or scales.shape != rows.shape[:1]:
        raise WireError(f"{where}: {scales.size} scales for an array of shape {rows.shape}")
    with np.errstate(all="ignore"):  # what is not finite is refused by the value made of it
        result: NDArray[np.float32] = rows * scales[:, None]
    return result
