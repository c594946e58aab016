"""A reduced cell: a method on digits for a few seconds, so that a broken loss or fusion shows as a
number.

What a method must reach is said by another run of the same cell (its loss or its fusion left out,
or another method), or by what scikit-learn makes of the same raw images on the same devices. A
margin is about half of what is measured, as room for another machine's bits. One seed is enough
where the difference is of five points and more; where it is less, two.
"""

from collections.abc import Callable
from functools import cache
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor

from protofleet.contract import Training
from protofleet.toolbox import losses
from simulators.run.config import LabConfig, Run
from simulators.run.partitions import PartitionOptions
from simulators.run.rounds import LabOptions, run
from simulators.run.setup import Setup, prepare, samples_of

SHORT = {"rounds": 8, "last": 3}  # for a difference that is there early


def setup_of(method: str, seed: int, settings: tuple[str, ...] = (), **changes: Any) -> Setup:
    """Six devices that share the digits out by Dir(0.3), where nothing else is said."""
    cell: dict[str, Any] = {"dataset": "digits", "agents": 6, "partition": "dirichlet"}
    # Half the steps of the usual batches of 8 at twice their rate: as much is learnt in less time.
    batch = changes.pop("batch", 16)
    return prepare(
        LabConfig(
            Run(method=method, seed=seed, **cell | changes),
            PartitionOptions(alpha=0.3),
            Training(lr=0.06 * batch / 16, batch_size=batch),
            settings=settings,
        )
    )


@cache
def accuracy(
    method: str,
    evaluator: str,
    *settings: str,
    rounds: int = 15,
    last: int = 5,
    seeds: int = 1,
    **changes: object,
) -> float:
    """The mean of the last rounds, over the seeds."""
    readings = []
    for seed in range(seeds):
        setup = setup_of(method, seed, settings, rounds=rounds, **changes)
        rows = run(setup, LabOptions(), lambda row: None).rows
        readings += [row.accuracy[evaluator] for row in rows[-last:]]
    return fmean(readings)


def without(term: str, method: str, evaluator: str, *settings: str, **how: Any) -> float:
    """The same where a loss's term (of `protofleet.toolbox.losses`) is left out: it has to stay
    below what is asked of the method, else nobody would notice it without the paper's own idea.
    """

    def nothing(rows: Tensor, *others: Any) -> Tensor:
        return 0.0 * rows.sum()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(losses, term, nothing)
        # Figures of whole losses are remembered; this is another under the same name.
        return accuracy.__wrapped__(method, evaluator, *settings, **how)


@cache
def guessing(**changes: object) -> float:
    """The accuracy of always saying the commonest class of one's own training samples."""

    def most_common(x: np.ndarray, y: np.ndarray, points: np.ndarray) -> np.ndarray:
        return np.full(len(points), np.bincount(y).argmax())

    return _over_devices(most_common, together=False, **changes)


@cache
def nearest_raw_mean(*, together: bool, **changes: object) -> float:
    """The nearest class mean of the images themselves, each device's own or everyone's."""

    def predict(x: np.ndarray, y: np.ndarray, points: np.ndarray) -> np.ndarray:
        classes = np.unique(y)
        means = [x[y == c].mean(0) for c in classes]
        return KNeighborsClassifier(1).fit(means, classes).predict(points)

    return _over_devices(predict, together=together, **changes)


@cache
def discriminants_of_raw_images(**changes: object) -> float:
    """scikit-learn's linear discriminant analysis of everyone's images in one place."""

    def predict(x: np.ndarray, y: np.ndarray, points: np.ndarray) -> np.ndarray:
        lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.01)
        return lda.fit(x, y).predict(points)

    return _over_devices(predict, together=True, **changes)


@cache
def share_of_known_classes(**changes: object) -> float:
    """The share of a device's test samples that are of a class it has trained on."""

    def right_where_known(x: np.ndarray, y: np.ndarray, points: np.ndarray) -> np.ndarray:
        return np.unique(y)

    return _over_devices(right_where_known, together=False, hit=np.isin, **changes)


def _over_devices(
    predict: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray],
    *,
    together: bool,
    hit: Callable[[np.ndarray, np.ndarray], np.ndarray] = np.equal,
    seeds: int = 1,
    **changes: object,
) -> float:
    """Mean over devices and seeds, as the laboratory's own figures."""
    readings = []
    for seed in range(seeds):
        setup = setup_of("local", seed, **changes)
        shards = setup.partition.shards
        train = [samples_of(setup.data, shard, shard.train) for shard in shards]
        if together:
            pooled = tuple(np.concatenate(column) for column in zip(*train, strict=True))
            train = [pooled] * len(shards)
        per_device = []
        for shard, (x, y) in zip(shards, train, strict=True):
            points, labels = setup.test_samples(shard)
            answers = predict(x.reshape(len(x), -1), y, points.reshape(len(points), -1))
            per_device.append(hit(labels, answers).mean())
        readings.append(fmean(per_device))
    return fmean(readings)
