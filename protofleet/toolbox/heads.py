"""Heads across devices (FedPAC): what a device tells of its features, and which mixture of the
fleet's heads fits it.

Rows are those of the last layer, `head.out`. What lies before it counts as the extractor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protofleet.contract import Contract
from protofleet.errors import FusionError
from protofleet.exchange.state import Upload
from protofleet.toolbox.access import need, one_number
from protofleet.toolbox.summaries import class_means
from protofleet.values.prototypes import Head, Ints, Parts, Prototypes, Tensors
from protofleet.values.sums import Bag, Partial

Matrix = NDArray[np.float64]
# FedPAC's code takes its statistics of the features that feed the last linear layer, since they
# decide which rows of others serve a device. Here that is the embedding: methods that combine rows
# have `Traits.linear_head`, by which hidden layers of a classifier (LeNet: 120 → 84 → C) lie before
# it.
_WEIGHT, _BIAS = "head.out.weight", "head.out.bias"


def rows(weights: Tensors, classes: ArrayLike | None = None) -> Head:
    """The last layer among these weights; only the rows of some classes where they are named."""
    weight, bias = weights[_WEIGHT], weights[_BIAS]
    at = np.arange(len(bias)) if classes is None else np.asarray(classes, np.int64)
    return Head(at, weight[at].astype(np.float32), bias[at].astype(np.float32))


def with_rows(weights: Tensors, head: Head) -> Tensors:
    """The last layer among these weights, with the head's rows in place of its own."""
    weight, bias = np.array(weights[_WEIGHT], np.float32), np.array(weights[_BIAS], np.float32)
    weight[head.classes], bias[head.classes] = head.weight, head.bias
    return Tensors({_WEIGHT: weight, _BIAS: bias})


def without_rows(weights: Tensors) -> Tensors:
    """These weights but for the last layer."""
    return Tensors(
        {name: array for name, array in weights.arrays.items() if name not in (_WEIGHT, _BIAS)}
    )


def statistics(features: ArrayLike, labels: ArrayLike) -> Parts:
    """Class means and counts (H's rows are p_c μ_c), and the variance V = (1/n) Σ_c [p_c E‖f‖² −
    p_c²‖μ_c‖²].
    """
    # FedPAC's V is the variance of the estimate of H from n samples, hence the 1/n in front: the
    # fewer samples a device has, the less its own statistics, and so its own head, are trusted.
    x, n = np.asarray(features, np.float64), len(np.asarray(labels))
    means = class_means(x, labels)
    second = float((x**2).sum(1).mean())  # Σ_c p_c E‖f‖² is the mean over all samples
    # A difference of sums of squares: where a class is all one point it is 0 up to rounding, and
    # must not come out below, since P = diag(V) + D would no longer be positive semidefinite.
    variance = max(second - float((_shares(means) ** 2).sum()), 0.0) / n
    return {"before": means, "variance": Tensors({"variance": np.array(variance, np.float32)})}


def fold_heads(
    name: str,
    upload: Upload,
    weight: int,
    contract: Contract,
    classes: Ints,
    *,
    with_statistics: bool = True,
) -> Partial:
    """The head and the statistics, where there are to be some, of one upload, kept whole; rows of
    exactly these classes are due.
    """
    # Everything that `Collaboration` and `mixed` take for granted of all uploads at once is checked
    # here of one: a fusion that fails cannot say by whose fault, and would take the whole round
    # with it.
    head = need(upload.parts, "head", Head)
    if contract.head_hidden:
        raise FusionError("head: rows of other devices read other features behind hidden layers")
    width = contract.embedding
    if not np.array_equal(head.classes, classes) or head.weight.shape[1:] != (width,):
        raise FusionError(f"head: rows of {width} for classes {classes.tolist()} are due")
    if with_statistics:
        means = need(upload.parts, "before", Prototypes)
        if means.counts is None or not means.counts.sum():
            raise FusionError("before: class means with counts are due")
        one_number(upload.parts, "variance", "variance", 0)
        means.table(contract.n_classes, width)  # raises where class or width do not fit
    return {name: Bag.of(upload.agent, weight, upload.parts)}


@dataclass(frozen=True, eq=False)
class Collaboration:
    """How far the feature statistics of devices are from each other, and how sure each one's
    are.
    """

    variances: Matrix  # [N]
    gram: Matrix  # [N, N], of the centred H

    @staticmethod
    def of(devices: Sequence[Parts], contract: Contract) -> Collaboration:
        """From what `statistics` made on each device."""
        h = np.zeros((len(devices), contract.n_classes, contract.embedding))
        for i, parts in enumerate(devices):
            means = need(parts, "before", Prototypes)
            h[i, means.classes] = _shares(means)
        # D_i[j, k] is a product of differences, so it can be read off the Gram matrix, N × N, in
        # one product: outer products of C × d rows take 17 s where this takes 2.3 ms (20 devices,
        # 100 classes, d 512). Differences do not see the centre, and less cancels about it.
        flat = h.reshape(len(devices), -1)
        flat = flat - flat.mean(0)
        variances = [one_number(parts, "variance", "variance", 0) for parts in devices]
        return Collaboration(np.array(variances), flat @ flat.T)

    def distances(self, i: int) -> Matrix:
        """D_i[j, k] = ⟨H_i − H_j, H_i − H_k⟩."""
        g = self.gram
        result: Matrix = g - g[i][:, None] - g[i][None, :] + g[i, i]
        return result

    def weights(self, i: int, among: Sequence[int]) -> Matrix:
        """The convex combination that serves device i: min αᵀ(diag V + D_i)α over these devices."""
        at = np.asarray(among, np.int64)
        return simplex_minimum(np.diag(self.variances[at]) + self.distances(i)[np.ix_(at, at)])


def simplex_minimum(quadratic: ArrayLike) -> Matrix:
    """The α ≥ 0 of sum 1 with the least αᵀPα, P symmetric and positive semidefinite, by active
    sets.

    A ridge of 10⁻¹⁰ of the largest diagonal entry makes the answer unique where P leaves it open.
    """
    # Scaled to a largest diagonal of 1, so that the ridge and the tolerance below are relative: V
    # falls with 1/n and H with the embedding's scale, over many powers of ten. The ridge is too
    # small to be seen beside any real difference, and shares evenly between devices that do not
    # differ at all.
    p = np.asarray(quadratic, np.float64)
    scale = float(p.diagonal().max(initial=0.0)) or 1.0
    p = (p + p.T) / (2 * scale) + 1e-10 * np.eye(len(p))
    # Begin at the best single device, a vertex of the simplex; let in the one that promises the
    # largest gain, solve on that face, and put out whoever would get a negative share. The minimum
    # falls with every step, so no face comes twice; the bound on the loop is against rounding
    # alone.
    alpha = np.zeros(len(p))
    alpha[p.diagonal().argmin()] = 1.0
    support = alpha > 0
    for _ in range(20 * len(p)):
        best = np.zeros(len(p))
        best[support] = np.linalg.solve(p[np.ix_(support, support)], np.ones(int(support.sum())))
        best /= best.sum()
        leaving = support & (best <= 0)
        # As far toward the optimum of this face as all stay ≥ 0; who gets to 0 leaves.
        if leaving.any():
            steps = alpha[leaving] / (alpha[leaving] - best[leaving])
            out = np.flatnonzero(leaving)[steps.argmin()]
            alpha = alpha + steps.min() * (best - alpha)
            alpha[out], support[out] = 0.0, False
            continue
        alpha = best
        # Optimal (Karush, Kuhn, Tucker) when no device outside has a smaller slope than the common
        # one of those inside, which is αᵀPα.
        gradient = p @ alpha
        gain = np.where(support, 0.0, alpha @ gradient - gradient)
        if gain.max() <= 1e-13:
            break
        support[gain.argmax()] = True
    result: Matrix = np.maximum(alpha, 0.0) / np.maximum(alpha, 0.0).sum()
    return result


def mixed(heads: Sequence[Head], alpha: ArrayLike) -> Head:
    """The combination of heads of the same classes, biases with their rows."""
    a = np.asarray(alpha, np.float64)
    weight, bias = (
        np.tensordot(a, np.stack(part), 1) for part in zip(*map(_arrays, heads), strict=True)
    )
    return Head(heads[0].classes, weight.astype(np.float32), bias.astype(np.float32))


def mixed_within(
    heads: Sequence[Head], groups: Mapping[int, Sequence[Sequence[int]]], by: Collaboration
) -> list[Head]:
    """Every device's head, row c combined over the devices in its group for class c (FedIC
    (11)).
    """
    # Two copies: rows are combined from what was sent, never from what another device just became,
    # which would make the outcome depend on the order of devices and classes.
    rows, combined = [_arrays(head) for head in heads], [_arrays(head) for head in heads]
    for c, of_class in groups.items():
        row = [int(np.searchsorted(head.classes, c)) for head in heads]
        for members in of_class:
            weight = np.stack([rows[j][0][row[j]] for j in members])
            bias = np.array([rows[j][1][row[j]] for j in members])
            for i in members:
                alpha = by.weights(i, members)
                combined[i][0][row[i]], combined[i][1][row[i]] = alpha @ weight, alpha @ bias
    return [
        Head(head.classes, weight.astype(np.float32), bias.astype(np.float32))
        for head, (weight, bias) in zip(heads, combined, strict=True)
    ]


def _arrays(head: Head) -> tuple[Matrix, Matrix]:
    return head.weight.astype(np.float64), head.bias.astype(np.float64)


def _shares(means: Prototypes) -> Matrix:
    """H's rows: p_c μ_c."""
    counts = np.asarray(means.counts, np.float64)
    result: Matrix = means.vectors * (counts / counts.sum())[:, None]
    return result
