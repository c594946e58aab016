"""How uploads become the next state: each fusion folds one upload into exact sums, and makes a
value of the total.
"""

from __future__ import annotations

import numpy as np

from protofleet.errors import FusionError
from protofleet.values.prototypes import Prototypes, Tensors
from protofleet.values.sums import Partial, Sum


def fold_means(name: str, prototypes: Prototypes, weight: int, *, by_count: bool) -> Partial:
    """Class means into one sum a class, each upload counting once or as often as it has samples."""
    # A sum has one row a key; a class sent twice would be one device with two votes.
    classes = prototypes.classes
    if len(set(classes.tolist())) < len(classes):
        raise FusionError(f"{name}: one mean a class is due")
    if not by_count:
        return {name: Sum.of(classes, prototypes.vectors, weight)}
    if prototypes.counts is None:
        raise FusionError(f"{name}: counts are due where means are weighted by them")
    return {name: Sum.of(classes, prototypes.vectors, weight * prototypes.counts)}


def means(name: str, total: Partial, before: Prototypes | None) -> Prototypes:
    """The mean of each class; a class that nobody sent this time keeps what it had."""
    # A class that nobody sent keeps what it had, so a prototype never disappears because the
    # devices that hold it were not drawn this round; the other rows are this round's alone, not a
    # running mean.
    total_sum = total.get(name)
    if not isinstance(total_sum, Sum):
        return (
            before
            if before is not None
            else Prototypes(np.zeros(0, np.int64), np.zeros((0, 0), np.float32))
        )
    # A row of total weight zero (counts of 0) has no mean: it counts as not sent.
    weighty = total_sum.weights > 0
    now = Prototypes(total_sum.keys[weighty], total_sum.mean()[weighty].astype(np.float32))
    if before is None:
        return now
    rest = before.only(np.setdiff1d(before.classes, now.classes))
    if not rest.classes.size:
        return now
    return Prototypes(
        np.concatenate([now.classes, rest.classes]), np.concatenate([now.vectors, rest.vectors])
    )


def fold_tensors(name: str, tensors: Tensors, weight: int, row: int = 0) -> Partial:
    """Every tensor into a weighted sum of its own; who keeps several apart gives each a row."""
    # The name before the first "/" is what the coordinator holds uploads to one shape by; rows of
    # one sum (IFCA's clusters) share that shape, so a cluster's first device is checked by the
    # others.
    return {
        f"{name}/{key}": Sum.of([row], array[None], [weight])
        for key, array in tensors.arrays.items()
    }


def mean_tensors(name: str, total: Partial, row: int = 0) -> Tensors | None:
    """The weighted mean of every tensor; None when nobody sent any."""
    prefix, tensors = f"{name}/", {}
    for key, part in total.items():
        if key.startswith(prefix) and isinstance(part, Sum):
            at = np.flatnonzero((part.keys == row) & (part.weights > 0))
            if at.size:
                tensors[key.removeprefix(prefix)] = part.mean()[at[0]].astype(np.float32)
    return Tensors(tensors) if tensors else None
