"""MP-FedCL's pool: every device's prototypes side by side, as they travel and as a loss compares
with them.

In a state a device's prototypes are a part of their own, `pool.0`, `pool.1` and so on in the order
of the agents' names, which the pool does not tell; a device's rows of one class are its slots, in
order. Only what was sent travels: padding can be derived from it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from protofleet.toolbox.access import need
from protofleet.toolbox.summaries import class_means
from protofleet.values.prototypes import Floats, Parts, Prototypes

# Rows of the padded pool come in powers of two from here on: eight devices with K = 2, the usual
# size of a test run, up to which no step is traced twice.
_LEAST_ROWS = 16


def publish(fresh: Sequence[Prototypes], before: Sequence[Prototypes]) -> dict[str, Prototypes]:
    """The pool (MP-FedCL (8)) as parts; classes that nobody sent this time keep the rows they
    had.
    """
    now = [member for member in fresh if member.classes.size]
    # `zeros(0)` first: numpy cannot join an empty list, and a pool of nobody is no error.
    classes = [np.zeros(0, np.int64), *(member.classes for member in now)]
    present = np.unique(np.concatenate(classes))
    # Old rows of absent classes are hung onto whoever has that number now. Whose they were does not
    # matter: the pool tells no names, inference looks at all rows, and the contrast averages over
    # them.
    for i, old in enumerate(before):
        rest = old.only(np.setdiff1d(old.classes, present))
        if not rest.classes.size:
            continue
        if i < len(now):
            now[i] = joined([now[i], rest])
        else:
            now.append(rest)
    # A part a device and not one for all: a part may have at most 64 rows a class on the wire,
    # which K = 2 reaches at 32 devices.
    return {f"pool.{i}": member for i, member in enumerate(now)}


def members(parts: Parts) -> list[Prototypes]:
    """The pool's devices, read back."""
    # Counted up until a name is missing: sorted names would put pool.10 before pool.2.
    names = itertools.takewhile(parts.__contains__, map("pool.{}".format, itertools.count()))
    return [need(parts, name, Prototypes) for name in names]


def joined(pool: Sequence[Prototypes]) -> Prototypes:
    """All rows in one, unpadded: what inference looks for the nearest in (MP-FedCL (13))."""
    return Prototypes(
        np.concatenate([one.classes for one in pool]), np.concatenate([one.vectors for one in pool])
    )


def widest(pool: Sequence[Prototypes]) -> int:
    """The largest number of prototypes that any device has of any class."""
    return max((int(np.bincount(one.classes).max()) for one in pool), default=1)


def padded(
    pool: Sequence[Prototypes], n_classes: int, dim: int, slots: int, *, whole: bool
) -> tuple[Floats, NDArray[np.bool_]]:
    """For each device and slot a prototype of every class, [N·K, C, d], and which classes anybody
    has.

    A device with fewer than K prototypes of a class takes the mean of the class in all K slots
    (`whole`, MP-FedCL (10) to the letter) or in those that are empty. A class that nobody has is
    zero.
    """
    table = np.zeros((len(pool), slots, n_classes, dim), np.float32)
    if not pool:
        return table.reshape(-1, n_classes, dim), np.zeros(n_classes, np.bool_)
    owner = np.repeat(np.arange(len(pool)), [len(one.classes) for one in pool])
    classes = np.concatenate([one.classes for one in pool])
    vectors = np.concatenate([one.vectors for one in pool])
    # (9) is over all prototypes of the class alike, however many samples stand behind each.
    means, have = class_means(vectors, classes, counts=False).table(n_classes, dim)
    # Begin with the mean everywhere and put the prototypes over it: what is left is the padding
    # (10). Rows are sorted by owner and, within one, by class, so a pair's rows are neighbours and
    # a row's slot is its distance from the first of its pair.
    table[:] = means
    _, first, sizes = np.unique(owner * n_classes + classes, return_index=True, return_counts=True)
    slot = np.arange(len(classes)) - np.repeat(first, sizes)
    # To the letter of (10) a device with fewer than K has none of its own left (`whole`). More than
    # K, as DBSCAN may find where `slots` is smaller, are cut off.
    stays = (slot < slots) & ((np.repeat(sizes, sizes) >= slots) | (not whole))
    table[owner[stays], slot[stays], classes[stays]] = vectors[stays]
    return table.reshape(-1, n_classes, dim), have


def as_given(
    pool: Sequence[Prototypes], n_classes: int, dim: int, slots: int, *, whole: bool
) -> dict[str, NDArray[Any]]:
    """The padded pool as `losses.to_pool` reads it, in unit vectors: how many devices sent changes
    from round to round, so there are rows for the next power of two (at least 16), and a step is
    seldom traced anew.
    """
    # Scaled after the padding: (9) is the mean of prototypes as they are. Rows of classes that
    # nobody has are zeros, and stay so by the floor.
    table, have = padded(pool, n_classes, dim, slots, whole=whole)
    room = max(_LEAST_ROWS, 1 << (len(table) - 1).bit_length())
    rows = np.zeros((room, n_classes, dim), np.float32)
    rows[: len(table)] = table / np.maximum(np.linalg.norm(table, axis=2, keepdims=True), 1e-12)
    return {
        "pool": rows,
        "filled": (np.arange(room) < len(table)).astype(np.float32),
        "have": have.astype(np.float32),
    }
