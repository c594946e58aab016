"""One pool of samples: what every reader of data returns and every partition deals out.

Rows [0:n_train] are the set's own training split, the rest its test split, so that a protocol that
keeps the two apart and one that deals out the whole pool read the same value. Rows are chosen per
class, by a generator that is handed in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from protofleet.contract import Input
from protofleet.errors import DataError

Samples = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class DataSet:
    """Images are uint8 [N, H, W, C] (grey: C = 1), vectors float32 [N, D], series float32 [N, T,
    C].
    """

    name: str
    classes: tuple[str, ...]
    input: Input
    x: Samples
    y: Ints
    n_train: int
    domains: Ints | None = None
    domain_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise DataError(f"{self.name}: {len(self.x)} samples but {len(self.y)} labels")
        if not 1 <= self.n_train <= len(self.y):
            raise DataError(f"{self.name}: no sample to train on")
        if self.y.min() < 0 or self.y.max() >= len(self.classes):
            raise DataError(
                f"{self.name}: labels from {self.y.min()} to {self.y.max()}, "
                f"but {len(self.classes)} classes"
            )


def input_of(name: str, x: Samples, mean: Sequence[float] = (), std: Sequence[float] = ()) -> Input:
    """What a network is fed with these samples; images without published constants take 0.5 and
    0.5.
    """
    if x.dtype == np.uint8 and x.ndim == 4:
        channels = x.shape[3]
        if channels > 4:
            raise DataError(
                f"{name}: images of shape {list(x.shape[1:])}",
                "channels come last: height, width, channel",
            )
        return Input(
            "image", x.shape[1:], tuple(mean) or (0.5,) * channels, tuple(std) or (0.5,) * channels
        )
    if x.dtype == np.float32 and x.ndim in (2, 3):
        return Input("vector" if x.ndim == 2 else "series", x.shape[1:], tuple(mean), tuple(std))
    raise DataError(
        f"{name}: samples of type {x.dtype} and shape {list(x.shape[1:])}",
        "images are uint8 of 2 or 3 sizes, vectors float of 1, series float of 2 (time, channel)",
    )


def rows_by_class(y: Ints, n_classes: int) -> list[Ints]:
    """The rows of each class, in their order."""
    # One sort for all classes, and a stable one: within a class the rows stay in order.
    order = np.argsort(y, kind="stable")
    return np.split(order, np.searchsorted(y[order], np.arange(1, n_classes)))


def stratified(y: Ints, share: float, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Shuffled rows of `y` as (rest, share): of each class the rounded share, and never its last
    row.
    """
    train, test = [], []
    for label in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == label))
        # Half up: round() takes halves to the even number, and a quarter of 10 and of 6 would both
        # be 2.
        count = min(len(rows) - 1, int(share * len(rows) + 0.5))
        test.append(rows[:count])
        train.append(rows[count:])
    # Again over all, or rows would come class by class: a pass that is cut short would miss some.
    return rng.permutation(np.concatenate(train)), rng.permutation(np.concatenate(test))
