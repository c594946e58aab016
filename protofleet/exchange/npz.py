"""Arrays from an `.npz` that somebody else made: plain numbers alone, as many as there are bytes.

numpy's own reader allocates what a header says, be it a TiB, and takes headers that are programs.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from protofleet.errors import WireError
from protofleet.exchange import zipped

SUFFIX = ".npy"
LARGEST = 512 << 20  # bytes of all arrays together
_MAGIC = b"\x93NUMPY"
# As numpy has written it since its first version, and nothing else that Python would read.
_HEADER = re.compile(
    rb"\{'descr': '([<>|=]?[biuf][1248])', 'fortran_order': (True|False), "
    rb"'shape': \(((?:\d{1,12}, ?)*\d{0,12})\), \}[ ]*\n?"
)


def read(data: bytes) -> dict[str, NDArray[Any]]:
    """Every array by its name, read-only; `WireError` says what is wrong."""
    try:
        packed = zipped.of_bytes(data, LARGEST)
        return {name.removesuffix(SUFFIX): array(packed.read(name)) for name in packed.names()}
    except zipped.UNREADABLE as error:
        raise WireError(f"no arrays ({' '.join(str(error).split())[:160]})") from None


def array(data: bytes) -> NDArray[Any]:
    """One of an `.npy`, read-only; `ValueError` or `TypeError` for what is none."""
    wide = data[6:7] in (b"\2", b"\3")
    if data[:6] != _MAGIC or data[6:7] not in (b"\1", b"\2", b"\3"):
        raise ValueError("an entry that is no array")
    begin = 12 if wide else 10
    end = begin + int.from_bytes(data[8:begin], "little")
    header = _HEADER.fullmatch(data[begin:end]) if end - begin <= 4096 else None
    if header is None:
        raise ValueError("an array of something else than numbers")
    dtype = np.dtype(header[1].decode())
    shape = tuple(int(size) for size in header[3].split(b",") if size.strip())
    # Before anything is made of them: the sizes are the file's own word.
    if len(shape) > 8 or math.prod(shape) * dtype.itemsize != len(data) - end:
        raise ValueError(f"{len(data) - end} bytes for an array of {list(shape)}"[:120])
    numbers = np.frombuffer(data, dtype, offset=end)
    return numbers.reshape(shape, order="F" if header[2] == b"True" else "C")
