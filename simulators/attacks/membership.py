"""Whether a sample is one of a device's, told from what the device contributes."""

# Theory of operation
#
# The attacker has a sample x (say, a photograph of a person) and its class c, and a contribution.
# It gives a score, the higher the likelier that x is in. How good a score is: the area under the
# curve of true against false alarms (0.5: a coin, 1: certain), and how many members are found where
# one stranger in a hundred is taken for one.
#
# 1. Covariance open. Rows L span the device's samples about their class means. Fewer samples than
#    dimensions leave nearly all directions empty, and a stranger lies in them:
#    leverage  h(x) = vᵀ (LᵀL + diag(residual) + εI)⁻¹ v,  v = x − μ_c.
#    A member's is at most about 1 however few samples there are, a stranger's is huge. ε is what
#    rounding rows to whole numbers leaves (a twelfth of each row's step squared).
# 2. Masked: the sum over a group. The same leverage, about zero, by the group's total, over what a
#    total of as many public samples gives it: how odd x is by itself cancels. It tells who is in
#    the group, not whose a sample is. A member's own part is in the matrix it is measured by: of
#    N samples its ratio is about 1 − d/N. At N = 2d that is a half; the larger the group, the
#    nearer it comes to a stranger's.
# 3. Off: means alone. A member is 1/n of its class's mean. The score of tracing (Dwork et al. 2015)
#    is how far the mean leans toward x, in the geometry of public samples:
#    t(x) = (x − m_c)ᵀ (Σ + ρ s̄ I)⁻¹ (μ_c − m_c), m and Σ of public images. Members have d/n on
#    average, strangers 0, with a spread of √(d/n): where n is far below d, the mean alone tells.

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from protofleet.statistics.contribution import Contribution, Matrix, scaled
from protofleet.util import seeds
from protofleet.values.prototypes import Ints
from simulators.attacks.defences import Defences, group_total, spoken
from simulators.attacks.population import Crowd, Population
from simulators.photos.measures import auroc

Scores = NDArray[np.float64]
Score = Callable[[Crowd], Scores]  # the higher, the likelier a member
CLASSES = 3  # of a device
STRANGERS = 200
_RIDGE, _GROUP_RIDGE = 0.01, 1e-5
_FALSE = 0.01  # alarms


@dataclass(frozen=True)
class Membership:
    """How well membership is told, mean over devices or groups."""

    attack: str
    samples: int  # a class, or of the group
    area: float
    caught: float  # members, at one false alarm in a hundred
    trials: int


def by_device(
    people: Population, samples: int, devices: int, defences: Defences
) -> Membership | None:
    """Of single devices: by the span where their covariance is open, else by the means."""
    rng = seeds.generator("membership", samples)
    trace = _Tracing.of(people.public, people.classes)
    pairs = []
    for _ in range(devices):
        rows = _device(people, samples, rng)
        owned, strangers = people.private.at(rows), people.private.at(_rest(people, rows, rng))
        own = spoken(owned.features, owned.labels, people.grid, defences)
        if own is None:
            continue
        score = _span(own, people.classes) if len(own.rows) else trace.score(own)
        pairs.append((score(owned), score(strangers)))
    name = "span" if defences.covariance == "open" else "mean"
    return _found(name, samples, pairs)


def by_group(people: Population, samples: int, least: int, groups: int) -> Membership | None:
    """Of masked groups that hold at least so many samples together, devices of `samples` a class;
    None where there are not enough people.
    """
    if least + STRANGERS > len(people.private.labels):
        return None
    rng = seeds.generator("membership of groups", samples, least)
    pairs, size = [], 0
    for _ in range(groups):
        order = rng.permutation(len(people.private.labels))
        inside, strangers = people.private.at(order[:least]), people.private.at(order[least:])
        contributions = []
        # By class in the crowd's order, so that devices hold few classes, as they do elsewhere.
        by_class = np.argsort(inside.labels, kind="stable")
        for rows in np.array_split(by_class, max(1, least // (CLASSES * samples))):
            owned = inside.at(rows)
            own = spoken(owned.features, owned.labels, people.grid, Defences())
            assert own is not None, "a device without a minimum speaks"
            contributions.append(own)
        total, size = group_total(contributions, people.grid)
        score = _leverage(total, people.public)
        chosen = inside.at(rng.permutation(size)[:STRANGERS])
        pairs.append((score(chosen), score(strangers.at(np.arange(STRANGERS)))))
    return _found("group", size, pairs)


@dataclass(frozen=True, eq=False)
class _Tracing:
    """What public samples say: means, and an inverse covariance within classes."""

    means: Matrix
    inverse: Matrix

    @staticmethod
    def of(public: Crowd, classes: int) -> _Tracing:
        means = np.stack(
            [public.features[public.of_class(c)].mean(0, dtype=np.float64) for c in range(classes)]
        )
        off = public.features - means[public.labels]
        within = off.T @ off / len(off)
        return _Tracing(means, _inverse(within, _RIDGE))

    def score(self, own: Contribution) -> Score:
        """By the means alone."""
        means, spoken_of = _table(own, len(self.means))
        lean = np.where(spoken_of[:, None], (means - self.means) @ self.inverse, 0)
        return lambda crowd: ((crowd.features - self.means[crowd.labels]) * lean[crowd.labels]).sum(
            1
        )


def _span(own: Contribution, classes: int) -> Score:
    """By rows that leave most directions empty."""
    factor = scaled(own.rows, own.exponents)
    rounding = float((4.0 ** own.exponents.astype(np.float64)).sum()) / 12
    matrix = factor.T @ factor + np.diag(own.residual.astype(np.float64) + rounding + 1e-12)
    inverse, (means, _) = np.asarray(np.linalg.inv(matrix)), _table(own, classes)
    return lambda crowd: -_quadratic(crowd.features - means[crowd.labels], inverse)


def _leverage(total: Matrix, public: Crowd) -> Score:
    """By a group's total, beside a public one."""
    rows = public.features.astype(np.float64)
    inverse, usual = (_inverse(matrix, _GROUP_RIDGE) for matrix in (total, rows.T @ rows))

    def score(crowd: Crowd) -> Scores:
        x = crowd.features.astype(np.float64)
        return -_quadratic(x, inverse) / _quadratic(x, usual)

    return score


def _inverse(matrix: Matrix, ridge: float) -> Matrix:
    """With this share of the mean diagonal added."""
    added = ridge * np.trace(matrix) / len(matrix)
    return np.asarray(np.linalg.inv(matrix + added * np.eye(len(matrix))))


def _table(own: Contribution, classes: int) -> tuple[Matrix, NDArray[np.bool_]]:
    """A mean a class id, and which ids have one."""
    rows, have = own.means.table(classes, own.means.dim)
    return rows.astype(np.float64), have


def _quadratic(rows: Matrix, inverse: Matrix) -> Scores:
    return np.asarray(np.einsum("nd,nd->n", rows @ inverse, rows), np.float64)


def _device(people: Population, samples: int, rng: np.random.Generator) -> Ints:
    """Rows of a device: so many of each of some classes."""
    classes = rng.permutation(people.classes)[:CLASSES]
    return np.concatenate([rng.permutation(people.private.of_class(c))[:samples] for c in classes])


def _rest(people: Population, rows: Ints, rng: np.random.Generator) -> Ints:
    """Strangers of the same classes."""
    labels = people.private.labels
    alike = np.flatnonzero(np.isin(labels, np.unique(labels[rows])))
    return rng.permutation(np.setdiff1d(alike, rows))[:STRANGERS]


def _found(attack: str, samples: int, pairs: Sequence[tuple[Scores, Scores]]) -> Membership | None:
    if not pairs:
        return None
    caught = [
        float((members > np.quantile(strangers, 1 - _FALSE)).mean()) for members, strangers in pairs
    ]
    area = fmean(auroc(members, strangers) for members, strangers in pairs)
    return Membership(attack, samples, area, fmean(caught), len(pairs))
