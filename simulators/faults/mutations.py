"""Uploads that are well formed and still not what is due: a part missing, twice, or of another
shape or sign.
"""

from __future__ import annotations

import contextlib
import random
from dataclasses import fields
from typing import Any

import numpy as np

from protofleet.errors import FleetError
from protofleet.values.prototypes import Part, Parts, Tensors


def mutated(parts: Parts, rng: random.Random) -> Parts:
    """One or two changes to an honest upload; what the vocabulary itself refuses is left as it
    was.
    """
    changed = dict(parts)
    for _ in range(rng.randint(1, 2)):
        if not changed:
            break
        name = rng.choice(sorted(changed))
        # What the vocabulary refuses cannot be encoded either, and so never reaches a coordinator.
        with contextlib.suppress(FleetError, TypeError, ValueError, IndexError):
            match rng.randint(0, 5):
                case 0:
                    del changed[name]
                case 1:
                    changed[name] = changed[rng.choice(sorted(changed))]
                case 2:
                    changed[f"x-{name}"] = changed[name]
                case _:
                    changed[name] = _reshaped(changed[name], rng)
    return changed


def _reshaped(part: Part, rng: random.Random) -> Part:
    if isinstance(part, Tensors):
        arrays = dict(part.arrays)
        name = rng.choice(sorted(arrays))
        changed = _changed(arrays.pop(name), rng)
        return Tensors(arrays if changed is None else {**arrays, name: changed})
    values = {field.name: getattr(part, field.name) for field in fields(part)}
    if rng.random() < 0.4:  # fewer rows of everything
        rows = rng.randint(0, 1)
        values = {name: array[:rows] if np.ndim(array) else array for name, array in values.items()}
    else:
        name = rng.choice(sorted(values))
        values[name] = None if values[name] is None else _changed(values[name], rng)
    reshaped: Part = type(part)(**values)
    return reshaped


def _changed(array: Any, rng: random.Random) -> Any:
    """Gone, deeper, half as long, or all of one number."""
    flat = np.asarray(array)
    return rng.choice(
        [None, flat[..., None], flat.reshape(-1)[: max(1, flat.size // 2)], flat * 0 - 1, flat * 0]
    )
