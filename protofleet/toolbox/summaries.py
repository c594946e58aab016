"""What a device sends, computed from a clean pass over its data: numpy in, vocabulary out."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from protofleet.values.prototypes import Floats, Prototypes, Tensors


def class_means(features: ArrayLike, labels: ArrayLike, *, counts: bool = True) -> Prototypes:
    """One mean a class the device has, with its count unless counts are private."""
    # Sorted by class, stably, and summed in runs: one pass whatever the number of classes, in
    # doubles and in the order of the samples, so the same samples give the same bits. `unique` of
    # the sorted labels says where each run begins, and never names a class without samples, whose
    # mean would be 0/0.
    x, y = np.asarray(features, np.float64), np.asarray(labels, np.int64)
    classes, first, sizes = np.unique(np.sort(y), return_index=True, return_counts=True)
    sums = np.add.reduceat(x[np.argsort(y, kind="stable")], first, axis=0)
    means = (sums / sizes[:, None]).astype(np.float32)
    return Prototypes(classes, means, sizes if counts else None)


def units(rows: Floats) -> Floats:
    """Every row scaled to length one."""
    # In float32 as the network's are, with a floor in float32: a float64 one would make doubles of
    # all. A row of zeros (every unit of a ReLU off) has no direction and stays zeros.
    scaled: Floats = rows / np.maximum(
        np.linalg.norm(rows, axis=1, keepdims=True), np.float32(1e-12)
    )
    return scaled


def sample_count(samples: int) -> Tensors:
    """n, what weight-averaging methods weigh a device by."""
    return Tensors({"samples": np.array(samples, np.int64)})
