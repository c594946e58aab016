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
    # scikit-learn's `reg_covar` adds the floor; without one a unit that a ReLU holds at zero would
    # have variance 0: a density without bound here, a division by zero in (8), refused by
    # `Mixtures`.
    x, y = np.asarray(features, np.float64), np.asarray(labels, np.int64)
    classes, counts = np.unique(y, return_counts=True)
    fitted = [_fit(x[y == c], components, floor, seed) for c in classes]
    return _assembled(classes, fitted, counts, x.shape[1])


def _fit(x: Doubles, components: int, floor: float, seed: int) -> Components:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    # Two samples a component at least, else EM puts one on each and the mixture tells the samples.
    # And no more than there are different samples: k-means, which begins EM, would warn and leave
    # some out.
    n = max(1, min(components, len(x) // 2, len(np.unique(x, axis=0))))
    model = GaussianMixture(n, covariance_type="diag", reg_covar=floor, random_state=seed % 2**32)
    if len(x) == 1:
        return np.ones(1), x, np.full_like(x, floor)  # sklearn refuses a single sample
    with warnings.catch_warnings():
        # A few samples may need more steps than they are worth.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(x)
    return model.weights_, model.means_, model.covariances_


def bhattacharyya(mean: Doubles, variance: Doubles, means: Doubles, variances: Doubles) -> Doubles:
    """The distance of one diagonal Gaussian to each of many (GFPL (8))."""
    # Diagonal covariances: quadratic form and determinants are sums over coordinates, so this is as
    # good as (8) at d in the hundreds, where a determinant itself would under- or overflow.
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
    # The paper leaves open which seed is taken first, and the outcome depends on it. `lexsort` goes
    # by its last key first, hence the reversal: mass, then every coordinate, so that only
    # components that are equal in all of them are ties, and those cannot be told apart in the
    # outcome either.
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
        # Two newcomers may be further than the threshold from each other: line 5 asks for their
        # distance to those who are in the cluster already, which at that time is the seed alone.
        members, free = np.concatenate([[seed], rest[near]]), rest[~near]
        share = w[members, None]
        mass = share.sum()  # line 13
        mean = (share * mu[members]).sum(0) / mass  # line 14
        # Line 15, its diagonal: mass, mean and second moment of the cluster are kept exactly.
        spread = (share * (var[members] + (mu[members] - mean) ** 2)).sum(0) / mass
        fused.append((float(mass), mean, spread))
    if not fused:
        return np.zeros(0), means[:0], variances[:0]
    fused_masses, centres, spreads = zip(*fused, strict=True)
    return np.array(fused_masses), np.stack(centres), np.stack(spreads)


def fuse(
    uploads: Iterable[tuple[int, Mixtures]], before: Mixtures | None, threshold: float, most: int
) -> Mixtures | None:
    """Per class one mixture of all that was sent, a component weighing its weight × its class's
    count.

    Where more than `most` components are left, the class's threshold is doubled. A class that
    nobody sent keeps its mixture.
    """
    total: dict[int, list[tuple[int, Components]]] = {}
    for weight, mixtures in uploads:
        for c, count, of_class in _by_class(mixtures):
            # w_j of algorithm 1 is not defined in the paper. Weight × count makes the fused mixture
            # that of all samples together; a class with a count of 0 has nothing behind it.
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
    # (4), ancestral: a component by its weight, then a point from it. Not clipped at zero, though
    # features after a ReLU are not negative: the moments are then those of the mixture. Weights are
    # normalised again, since float32 ones on the wire sum to 1 only nearly and `choice` insists.
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
        np.concatenate(columns) for columns in zip(*(part for _, part in several), strict=True)
    )
    fused, centres, spreads = fuse_components(masses, means, variances, threshold)
    # From the original components again and with twice the threshold, not by fusing what was fused:
    # two steps of matched moments would depend on what the first one happened to join. It ends,
    # since at some threshold everything is near the first seed; 0 has no double, so it goes on from
    # 1.
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
        np.concatenate(columns).astype(np.float32) for columns in zip(nothing, *parts, strict=True)
    )
    return Mixtures(rows, weights, means, variances, counts)
