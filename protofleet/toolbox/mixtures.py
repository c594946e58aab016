"""Classes as diagonal Gaussian mixtures: fitted on a device, fused at the coordinator, sampled from
on the devices.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protofleet.values.prototypes import Floats, Ints, Mixtures

Doubles = NDArray[np.float64]
Components = tuple[Doubles, Doubles, Doubles]  # masses [N], means [N, d], variances [N, d]


def class_mixtures(
    features: ArrayLike, labels: ArrayLike, components: int, floor: float, seed: int
) -> Mixtures:
    """A mixture a class by EM (GFPL (5), (6)), with fewer components where a class has fewer than
    two samples each.

    `floor` is added to every variance: a unit that is never active has none of its own.
    """
    x, y = np.asarray(features, np.float64), np.asarray(labels, np.int64)
    classes, counts = np.unique(y, return_counts=True)
    fitted = [_fit(x[y == c], components, floor, seed) for c in classes]
    return _assembled(classes, fitted, counts, x.shape[1])


def _fit(x: Doubles, components: int, floor: float, seed: int) -> Components:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    n = max(1, min(components, len(x) // 2, len(np.unique(x, axis=0))))
    model = GaussianMixture(n, covariance_type="diag", reg_covar=floor, random_state=seed % 2**32)
    if len(x) == 1:
        return np.ones(1), x, np.full_like(x, floor)  # sklearn refuses a single sample
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ConvergenceWarning
        )  # a few samples may need more steps than they are worth
        model.fit(x)
    return model.weights_, model.means_, model.covariances_


def bhattacharyya(mean: Doubles, variance: Doubles, means: Doubles, variances: Doubles) -> Doubles:
    """The distance of one diagonal Gaussian to each of many (GFPL (8))."""
    middle = (variance + variances) / 2
    apart = ((means - mean) ** 2 / middle).sum(-1) / 8
    spread = np.log(middle) - (np.log(variance) + np.log(variances)) / 2
    result: Doubles = apart + spread.sum(-1) / 2
    return result


def fuse_components(
    masses: Doubles, means: Doubles, variances: Doubles, threshold: float
) -> Components:
    """Components that are near each other become one with their mass and moments (GFPL, algorithm
    1).

    Seeds are taken heaviest first, ties by content, so that the outcome does not depend on the
    order of the rows.
    """
    order = np.lexsort(np.column_stack([-masses, means, variances]).T[::-1])
    order = order[masses[order] > 0]
    w, mu, var = masses[order], means[order], variances[order]
    fused: list[tuple[float, Doubles, Doubles]] = []
    free = np.arange(len(w))
    while free.size:
        seed, rest = free[0], free[1:]
        # Lines 4-9 add at once all that are near the seed. Whoever is near all members later is
        # near the seed too, and was added then: the loop has no second turn.
        near = bhattacharyya(mu[seed], var[seed], mu[rest], var[rest]) < threshold
        members, free = np.concatenate([[seed], rest[near]]), rest[~near]
        share = w[members, None]
        mass = share.sum()  # line 13
        mean = (share * mu[members]).sum(0) / mass  # line 14
        spread = (share * (var[members] + (mu[members] - mean) ** 2)).sum(
            0
        ) / mass  # line 15, its diagonal
        fused.append((float(mass), mean, spread))
    if not fused:
        return np.zeros(0), means[:0], variances[:0]
    found, centres, spreads = zip(*fused, strict=True)
    return np.array(found), np.stack(centres), np.stack(spreads)


def fuse(
    sent: Iterable[tuple[int, Mixtures]], before: Mixtures | None, threshold: float, most: int
) -> Mixtures | None:
    """Per class one mixture of all that was sent, a component weighing its weight × its class's
    count.

    Where more than `most` components are left, the class's threshold is doubled. A class that
    nobody sent keeps its mixture.
    """
    total: dict[int, list[tuple[int, Components]]] = {}
    for weight, mixtures in sent:
        for c, count, of_class in _by_class(mixtures):
            if count * weight > 0:
                masses = of_class[0] * (count * weight)
                total.setdefault(c, []).append((count * weight, (masses, *of_class[1:])))
    if not total:
        return before
    fused = {c: _fused_class(several, threshold, most) for c, several in total.items()}
    for c, count, of_class in () if before is None else _by_class(before):
        fused.setdefault(c, (count, of_class))
    classes = sorted(fused)
    counts = np.array([fused[c][0] for c in classes], np.int64)
    parts = [fused[c][1] for c in classes]
    return _assembled(np.array(classes, np.int64), parts, counts, parts[0][1].shape[1])


def sample(mixtures: Mixtures, per_class: int, rng: np.random.Generator) -> tuple[Floats, Ints]:
    """As many pseudo-features of every class (GFPL (4)), with their labels."""
    drawn, labels = [np.zeros((0, mixtures.dim))], [np.zeros(0, np.int64)]
    for c, _, (weights, means, variances) in _by_class(mixtures):
        which = rng.choice(len(weights), per_class, p=weights / weights.sum())
        noise = rng.standard_normal((per_class, mixtures.dim))
        drawn.append(means[which] + np.sqrt(variances[which]) * noise)
        labels.append(np.full(per_class, c, np.int64))
    return np.concatenate(drawn).astype(np.float32), np.concatenate(labels)


def _fused_class(
    several: Sequence[tuple[int, Components]], threshold: float, most: int
) -> tuple[int, Components]:
    masses, means, variances = (
        np.concatenate(each) for each in zip(*(part for _, part in several), strict=True)
    )
    fused, centres, spreads = fuse_components(masses, means, variances, threshold)
    while len(fused) > most:
        threshold = 2 * threshold or 1.0
        fused, centres, spreads = fuse_components(masses, means, variances, threshold)
    return sum(count for count, _ in several), (fused / fused.sum(), centres, spreads)


def _by_class(mixtures: Mixtures) -> Iterable[tuple[int, int, Components]]:
    """Class, count and components, in doubles."""
    classes, first = np.unique(mixtures.classes, return_index=True)
    ends = np.append(first, len(mixtures.classes))[1:]
    columns = [
        column.astype(np.float64)
        for column in (mixtures.weights, mixtures.means, mixtures.variances)
    ]
    for c, count, start, end in zip(classes, mixtures.counts, first, ends, strict=True):
        weights, means, variances = (column[start:end] for column in columns)
        yield int(c), int(count), (weights, means, variances)


def _assembled(classes: Ints, parts: Sequence[Components], counts: Ints, dim: int) -> Mixtures:
    nothing = (np.zeros(0), np.zeros((0, dim)), np.zeros((0, dim)))
    rows = np.repeat(classes, [len(weights) for weights, _, _ in parts])
    weights, means, variances = (
        np.concatenate(each).astype(np.float32) for each in zip(nothing, *parts, strict=True)
    )
    return Mixtures(rows, weights, means, variances, counts)
