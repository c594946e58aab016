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
    x, n = np.asarray(features, np.float64), len(np.asarray(labels))
    means = class_means(x, labels)
    second = float((x**2).sum(1).mean())  # Σ_c p_c E‖f‖² is the mean over all samples
    variance = max(second - float((_shares(means) ** 2).sum()), 0.0) / n
    return {"before": means, "variance": Tensors({"variance": np.array(variance, np.float32)})}


def fold_heads(
    name: str, upload: Upload, weight: int, contract: Contract, classes: Ints
) -> Partial:
    """The head and the statistics of one upload, kept whole; rows of exactly these classes are
    due.
    """
    head, means = need(upload.parts, "head", Head), need(upload.parts, "before", Prototypes)
    width = (contract.embedding, *contract.head_hidden)[-1]
    if not np.array_equal(head.classes, classes) or head.weight.shape[1:] != (width,):
        raise FusionError(f"head: rows of {width} for classes {classes.tolist()} are due")
    if means.counts is None or not means.counts.sum():
        raise FusionError("before: class means with counts are due")
    one_number(upload.parts, "variance", "variance", 0)
    means.table(contract.n_classes, contract.embedding)
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
        flat = h.reshape(len(devices), -1)
        flat = flat - flat.mean(0)  # D knows differences only, and less cancels about the centre
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
    p = np.asarray(quadratic, np.float64)
    scale = float(p.diagonal().max(initial=0.0)) or 1.0
    p = (p + p.T) / (2 * scale) + 1e-10 * np.eye(len(p))
    alpha = np.zeros(len(p))
    alpha[p.diagonal().argmin()] = 1.0
    support = alpha > 0
    for _ in range(20 * len(p)):
        best = np.zeros(len(p))
        best[support] = np.linalg.solve(p[np.ix_(support, support)], np.ones(int(support.sum())))
        best /= best.sum()
        leaving = support & (best <= 0)
        if (
            leaving.any()
        ):  # as far toward the optimum of this face as all stay ≥ 0; who gets to 0 leaves
            steps = alpha[leaving] / (alpha[leaving] - best[leaving])
            out = np.flatnonzero(leaving)[steps.argmin()]
            alpha = alpha + steps.min() * (best - alpha)
            alpha[out], support[out] = 0.0, False
            continue
        alpha = best
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
    sent, made = [_arrays(head) for head in heads], [_arrays(head) for head in heads]
    for c, of_class in groups.items():
        row = [int(np.searchsorted(head.classes, c)) for head in heads]
        for members in of_class:
            weight = np.stack([sent[j][0][row[j]] for j in members])
            bias = np.array([sent[j][1][row[j]] for j in members])
            for i in members:
                alpha = by.weights(i, members)
                made[i][0][row[i]], made[i][1][row[i]] = alpha @ weight, alpha @ bias
    return [
        Head(head.classes, weight.astype(np.float32), bias.astype(np.float32))
        for head, (weight, bias) in zip(heads, made, strict=True)
    ]


def _arrays(head: Head) -> tuple[Matrix, Matrix]:
    return head.weight.astype(np.float64), head.bias.astype(np.float64)


def _shares(means: Prototypes) -> Matrix:
    """H's rows: p_c μ_c."""
    counts = np.asarray(means.counts, np.float64)
    result: Matrix = means.vectors * (counts / counts.sum())[:, None]
    return result
