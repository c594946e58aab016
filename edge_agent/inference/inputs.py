"""From published points to what a bundle's graph takes: W, b (and a centre), and which class each
row is of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_agent.inference.bundle import Reading
from protofleet.exchange.published import Bank
from protofleet.values.prototypes import Floats, Head, Ints, Mixtures, Prototypes

Scores = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Ready:
    """Points as inputs of the graph; never changed, only replaced."""

    inputs: Mapping[str, Floats]
    rows: Ints  # the class of each score
    starts: Ints  # where in the scores each class with points begins
    present: Ints  # the classes that have points, in order
    classes: tuple[str, ...]

    def by_class(self, score: Scores, kind: str) -> Scores:
        """[N, rows] to [N, classes with points]: the best of a class's prototypes, or all
        its Gaussians together.
        """
        if not len(self.present):
            return score[:, :0]
        # Rows are sorted by class, so a class is a stretch of columns.
        top = np.maximum.reduceat(score, self.starts, axis=1)
        if kind != "mixtures":
            return top
        width = np.diff([*self.starts, score.shape[1]])
        # log sum exp with the largest taken out first: densities in many dimensions underflow.
        near = np.exp(score - np.repeat(top, width, axis=1))
        return top + np.log(np.add.reduceat(near, self.starts, axis=1))


def ready(bank: Bank, reading: Reading, drift: Mapping[str, Floats] | None = None) -> Ready:
    """The inputs for these points; `drift` moves a class's points to where a quantised extractor
    sees them.
    """
    points = bank.points
    moved = drift_of([bank.about.classes[c] for c in points.classes], drift or {})
    match points:
        case Prototypes():
            inputs = _nearest(points.vectors + moved, reading.metric)
        case Mixtures():
            inputs = _likeliest(points, points.means + moved)
        case Head():
            # Its rows were made for what the float extractor sees.
            bias = points.bias.astype(np.float64)
            bias -= points.weight.astype(np.float64) @ drift[""] if drift else 0.0
            inputs = {"proto_w": points.weight.T, "proto_b": bias}
    classes, starts = np.unique(points.classes, return_index=True)
    contiguous = {name: np.ascontiguousarray(array, np.float32) for name, array in inputs.items()}
    return Ready(contiguous, points.classes, starts, classes, bank.about.classes)


def _nearest(vectors: Floats, metric: str) -> dict[str, NDArray[np.floating]]:
    # |f - p|² = |f|² - (2 f·p - |p|²): the first term is the same for every class, so the graph
    # computes what is in brackets, one Gemm, and the largest is the nearest. In float64, since the
    # two terms nearly cancel near a prototype.
    p = vectors.astype(np.float64)
    if metric == "cosine":
        p /= np.maximum(np.linalg.norm(p, axis=1, keepdims=True), 1e-12)
        return {"proto_w": 2 * p.T, "proto_b": -np.ones(len(p))}
    return {"proto_w": 2 * p.T, "proto_b": -(p**2).sum(1)}


def _likeliest(points: Mixtures, means: Floats) -> dict[str, NDArray[np.floating]]:
    # log N(f; m, s²) is linear in (f², f). Expanded around zero the terms would be large and nearly
    # cancel; around the mean of the means they are as small as can be.
    mean, precision = means.astype(np.float64), 1.0 / points.variances.astype(np.float64)
    centre = mean.mean(0) if len(mean) else np.zeros(mean.shape[1])
    # As the graph will subtract it: what is rounded off here would be multiplied by the precision.
    centre = centre.astype(np.float32)
    mean = mean - centre
    # The log of no weight is -inf, and the difference of two such scores, by which graphs are
    # compared, would be no number.
    with np.errstate(divide="ignore"):
        weight = np.maximum(np.log(points.weights.astype(np.float64)), -1e30)
    b = weight + 0.5 * np.log(precision / (2 * np.pi)).sum(1) - 0.5 * (mean**2 * precision).sum(1)
    return {
        "proto_w": np.concatenate([-0.5 * precision, mean * precision], 1).T,
        "proto_b": b,
        "proto_c": centre,
    }


def drift_of(names: Sequence[str], drift: Mapping[str, Floats]) -> Floats:
    """What is added to a row of each of these classes: its own drift, or the mean for a class that
    came later.
    """
    # Under the empty name: the mean over all classes.
    rows = [drift.get(name, drift[""]) for name in names] if drift else []
    return np.stack(rows) if rows else np.zeros(1, np.float32)


def scores_of(features: Floats, points: Ready) -> Scores:
    """What the graph's last step makes of features."""
    x = features
    if "proto_c" in points.inputs:
        centred = x - points.inputs["proto_c"]
        x = np.concatenate([centred**2, centred], 1)
    score: Scores = x @ points.inputs["proto_w"] + points.inputs["proto_b"]
    return score


def precisely(features: Floats, points: Ready) -> Scores:
    """The same of a head in double precision: its rows are differences of large numbers, and what
    single precision rounds off, on each processor otherwise, would be seen in a probability.
    """
    w, b = (points.inputs[name].astype(np.float64) for name in ("proto_w", "proto_b"))
    score: Scores = features.astype(np.float64) @ w + b
    return score


def oddness(features: Floats, per_class: Scores, by: str) -> Scores:
    """How little a sample is like any class: squared distance, minus log likelihood, or a head's
    energy.
    """
    top = per_class.max(1)
    if by == "prototypes":
        odd = (features**2).sum(1) - top
    elif by == "mixtures":
        odd = -top
    else:
        odd = -(top + np.log(np.exp(per_class - top[:, None]).sum(1)))
    return np.asarray(odd, np.float32)
