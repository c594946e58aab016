"""Reading a part out of an upload or a state: there and of the kind that is due, or one clear
line.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from protofleet.errors import FusionError
from protofleet.values.prototypes import Part, Parts, Tensors
from protofleet.values.prototypes import Prototypes as _Prototypes

P = TypeVar("P", bound=Part)


def need(parts: Parts, name: str, kind: type[P]) -> P:
    """The part, which must be there."""
    part = find(parts, name, kind)
    if part is None:
        raise FusionError(
            f"part {name!r} is missing; there are: {', '.join(sorted(parts)) or 'none'}"
        )
    return part


def find(parts: Parts, name: str, kind: type[P]) -> P | None:
    """The part, or None where there is none (yet)."""
    part = parts.get(name)
    if part is not None and not isinstance(part, kind):
        raise FusionError(f"part {name!r}: {kind.__name__} is due, not {type(part).__name__}")
    return part


def one_number(parts: Parts, name: str, tensor: str, low: float) -> float:
    """The one number that somebody sent in this part, and not less than `low`."""
    arrays = need(parts, name, Tensors).arrays
    array = arrays.get(tensor)
    # Written as `not x >= low` it refuses NaN too, which compares false with everything. A further
    # tensor in the part is refused, since nobody would read it.
    if array is None or len(arrays) > 1 or array.size != 1 or not array.item() >= low:
        raise FusionError(f"{name}.{tensor}: one number from {low:g} up is due")
    return float(array.item())


def as_given(prototypes: _Prototypes | None, n_classes: int, dim: int) -> dict[str, NDArray[Any]]:
    """Prototypes as a loss reads them: a row a class id, and 1.0 where there is one (all 0.0 in the
    first round).
    """
    # Always C rows, whichever classes are known: shapes that do not change from round to round let
    # one compiled step serve the run. `have` is a float since it is multiplied by: a term of a
    # class without a prototype has weight 0, so what stands in its row (zeros) is never looked at.
    if prototypes is None or not prototypes.classes.size:
        return {
            "prototypes": np.zeros((n_classes, dim), np.float32),
            "have": np.zeros(n_classes, np.float32),
        }
    rows, have = prototypes.table(n_classes, dim)
    return {"prototypes": rows, "have": have.astype(np.float32)}
