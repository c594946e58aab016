"""A vector or a series from a file: `.npy`, or numbers with commas (`.csv`), a line a moment."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from protofleet.contract import Input
from protofleet.errors import DataError
from protofleet.exchange import npz

SUFFIXES = frozenset({".csv", ".npy"})
LARGEST = 1 << 24  # bytes: more is no sample
_WORDS = {"vector": "vectors", "series": "series"}


def read(path: Path, kind: Input) -> NDArray[Any]:
    """One sample, in the sizes that the extractor takes."""
    if path.suffix.lower() not in SUFFIXES:
        raise DataError(f"{path}: this bundle takes {_WORDS[kind.kind]}, in .csv or .npy files")
    try:
        if not path.is_file():
            raise ValueError("no file")  # to open a pipe waits for whoever writes to it
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        if not 0 < len(data) <= LARGEST:
            raise ValueError(f"{len(data)} bytes, at most {LARGEST} are due")
        if path.suffix.lower() == ".npy":
            array = npz.array(data)
        else:
            array = np.loadtxt(io.BytesIO(data), delimiter=",", ndmin=2)
        sample = np.asarray(array, np.float32)
    except (OSError, ValueError, TypeError, EOFError) as error:
        words = " ".join(str(error).split())[:200]
        raise DataError(f"{path}: not a readable sample ({words})") from None
    # A vector may stand in one line, or a number a line.
    if kind.kind == "vector" and sample.size == max(sample.shape, default=0):
        sample = sample.reshape(-1)
    if sample.shape != kind.shape or not np.isfinite(sample).all():
        due = "×".join(map(str, kind.shape))
        here = "×".join(map(str, sample.shape))
        raise DataError(f"{path}: a {kind.kind} of {due} finite numbers is due, this is {here}")
    return sample
