"""What bounds one sample's or one device's part in a sum: rows no longer than the contract's norm,
on a grid, so that noise on the same grid hides them exactly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from protofleet.values.prototypes import Ints

POINT = 12  # bits after the point of the grid that values and noise share


def clipped(rows: ArrayLike, norm: float) -> Ints:
    """Each row in steps of 2^−POINT, shortened where it is longer than `norm`; rounding is towards
    zero, so that none becomes longer by it.
    """
    values = np.asarray(rows, np.float64)
    lengths = np.linalg.norm(values, axis=-1, keepdims=True)
    # A little less than it might: a float's rounding must not make a row longer than it is said.
    factor = np.minimum(1.0, norm * (1 - 2.0**-40) / np.maximum(lengths, 1e-300))
    steps: Ints = np.trunc(values * factor * 2.0**POINT).astype(np.int64)
    return steps
