"""A fixed classifier of C unit vectors as far apart as C vectors can be: the simplex equiangular
tight frame.
"""

from __future__ import annotations

import numpy as np

from protofleet.errors import SettingError
from protofleet.values.prototypes import Floats


def simplex(n_classes: int, dim: int, rng: np.random.Generator) -> Floats:
    """One unit row a class, any two at cosine −1/(C − 1), turned at random in `dim` ≥ C
    dimensions.
    """
    if dim < n_classes:
        raise SettingError(
            f"a frame of {n_classes} classes in {dim} dimensions", f"it needs at least {n_classes}"
        )
    q, r = np.linalg.qr(rng.standard_normal((dim, n_classes)))  # GFPL (9)
    # QR is unique up to a sign a column, and LAPACKs differ in which they choose. With R's diagonal
    # made positive it is unique, and every device finds the same frame from the same seed.
    q = q * np.sign(np.diag(r))
    # (10): Q(I − 11ᵀ/C) takes the mean column away from each. For one class that would leave
    # nothing and √(C/(C−1)) is 1/0: a single class is any unit vector.
    if n_classes > 1:
        q = np.sqrt(n_classes / (n_classes - 1)) * (q - q.mean(1, keepdims=True))
    return np.ascontiguousarray(q.T, np.float32)
