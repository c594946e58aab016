"""FedTGP's server: prototypes made by a small network that is trained with a margin, in numpy with
its own gradients.

The network is the official code's: an embedding a class, a linear layer, ReLU, a linear layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from protofleet.toolbox import alignment
from protofleet.values.prototypes import Floats, Ints

Weights = dict[str, NDArray[np.float32]]


@dataclass(frozen=True)
class PrototypeTraining:
    """One round's training of prototypes: the margin δ, and the steps of plain SGD."""

    delta: float
    epochs: int
    batch_size: int
    lr: float


def initial(n_classes: int, dim: int, hidden: int, rng: np.random.Generator) -> Weights:
    """Random weights by the customs of torch: N(0, 1) for embeddings, ±1/√inputs for layers."""

    def uniform(inputs: int, *shape: int) -> NDArray[np.float32]:
        return rng.uniform(-(inputs**-0.5), inputs**-0.5, shape).astype(np.float32)

    return {
        "embedding": rng.standard_normal((n_classes, dim)).astype(np.float32),
        "w1": uniform(dim, hidden, dim),
        "b1": uniform(dim, hidden),
        "w2": uniform(hidden, dim, hidden),
        "b2": uniform(hidden, dim),
    }


def prototypes(weights: Mapping[str, NDArray[np.float32]]) -> NDArray[np.float32]:
    """One prototype a class."""
    hidden = np.maximum(weights["embedding"] @ weights["w1"].T + weights["b1"], 0.0)
    return np.asarray(hidden @ weights["w2"].T + weights["b2"])


def margin(vectors: Floats, labels: Ints, most: float) -> float:
    """δ = min(max over classes of the distance to the nearest other class's mean, τ) (FedTGP's
    adaptive margin).
    """
    classes = np.unique(labels)
    # One class has no other to be apart from: the gap would be infinite, and δ is then τ.
    if len(classes) < 2:
        return most
    # Plain means over devices, not by counts, which FedTGP does not send. The *largest* of the
    # nearest distances: the margin asks of all classes what the best separated one has reached.
    means = np.stack([vectors[labels == c].mean(0, dtype=np.float64) for c in classes])
    return min(float(alignment.gaps(means).max()), most)


def loss_and_gradients(weights: Weights, x: Floats, y: Ints, delta: float) -> tuple[float, Weights]:
    """CE over minus the distances to all prototypes, that to the own one longer by δ; and its
    gradients.
    """
    # The network is evaluated once for all C prototypes, whatever the batch, so its gradients are
    # sums over the batch at the prototypes. Everything is float32, as torch's would be.
    before = weights["embedding"] @ weights["w1"].T + weights["b1"]
    hidden = np.maximum(before, 0.0)
    points = hidden @ weights["w2"].T + weights["b2"]

    # Floored before the root: rounding may make a square negative, and the root's slope at 0 is
    # infinite. A sample on its prototype gets a finite gradient, off by some ten per cent: a large
    # factor times a difference of nearly equal numbers.
    square = (x**2).sum(1)[:, None] - 2.0 * (x @ points.T) + (points**2).sum(1)[None, :]
    distance = np.sqrt(np.maximum(square, 1e-12))
    rows = np.arange(len(y))
    # The margin makes the own prototype look δ further off than it is, so that the loss is at rest
    # only when all others are further than that.
    logits = -distance
    logits[rows, y] -= delta
    logits -= logits.max(1, keepdims=True)
    share = np.exp(logits)
    share /= share.sum(1, keepdims=True)
    # At δ = 100 a share may underflow to 0 in float32: the logarithm is capped, the gradients below
    # are of the shares themselves and do not see the cap.
    loss = -float(np.log(np.maximum(share[rows, y], 1e-30)).mean())

    share[rows, y] -= 1.0  # now the gradient by the logits, before the mean
    pull = -share / (len(y) * distance)
    # ∂‖x − p‖/∂p = (p − x)/‖x − p‖, summed over the samples as two products: never B × C × d
    # differences.
    by_points = pull.sum(0)[:, None] * points - pull.T @ x
    by_hidden = (by_points @ weights["w2"]) * (before > 0)
    gradients = {
        "embedding": by_hidden @ weights["w1"],
        "w1": by_hidden.T @ weights["embedding"],
        "b1": by_hidden.sum(0),
        "w2": by_points.T @ hidden,
        "b2": by_points.sum(0),
    }
    return loss, gradients


def trained(
    weights: Mapping[str, NDArray[np.float32]],
    vectors: Floats,
    labels: Ints,
    rng: np.random.Generator,
    training: PrototypeTraining,
) -> Weights:
    """The weights after plain SGD over all local prototypes, shuffled anew in every epoch."""
    # Copies: the weights of the state before are read-only and stay as they are.
    now = {name: np.array(array, np.float32) for name, array in weights.items()}
    for _ in range(training.epochs):
        order = rng.permutation(len(labels))
        for start in range(0, len(order), training.batch_size):
            some = order[start : start + training.batch_size]
            _, gradients = loss_and_gradients(now, vectors[some], labels[some], training.delta)
            for name, gradient in gradients.items():
                now[name] -= training.lr * gradient
    return now
