"""FedTGP's server: prototypes made by a small network that is trained with a margin, in numpy with
its own gradients.

The network is the official code's: an embedding a class, a linear layer, ReLU, a linear layer.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from protofleet.toolbox import alignment
from protofleet.values.prototypes import Floats, Ints

Weights = dict[str, NDArray[np.float32]]


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
    held = np.unique(labels)
    if len(held) < 2:
        return most
    means = np.stack([vectors[labels == c].mean(0, dtype=np.float64) for c in held])
    return min(float(alignment.gaps(means).max()), most)


def loss_and_gradients(weights: Weights, x: Floats, y: Ints, delta: float) -> tuple[float, Weights]:
    """CE over minus the distances to all prototypes, that to the own one longer by δ; and its
    gradients.
    """
    before = weights["embedding"] @ weights["w1"].T + weights["b1"]
    hidden = np.maximum(before, 0.0)
    made = hidden @ weights["w2"].T + weights["b2"]

    square = (x**2).sum(1)[:, None] - 2.0 * (x @ made.T) + (made**2).sum(1)[None, :]
    distance = np.sqrt(np.maximum(square, 1e-12))
    rows = np.arange(len(y))
    logits = -distance
    logits[rows, y] -= delta
    logits -= logits.max(1, keepdims=True)
    share = np.exp(logits)
    share /= share.sum(1, keepdims=True)
    loss = -float(np.log(np.maximum(share[rows, y], 1e-30)).mean())

    share[rows, y] -= 1.0  # now the gradient by the logits, before the mean
    pull = -share / (len(y) * distance)
    by_made = pull.sum(0)[:, None] * made - pull.T @ x
    by_hidden = (by_made @ weights["w2"]) * (before > 0)
    gradients = {
        "embedding": by_hidden @ weights["w1"],
        "w1": by_hidden.T @ weights["embedding"],
        "b1": by_hidden.sum(0),
        "w2": by_made.T @ hidden,
        "b2": by_made.sum(0),
    }
    return loss, gradients


def trained(
    weights: Mapping[str, NDArray[np.float32]],
    vectors: Floats,
    labels: Ints,
    delta: float,
    rng: np.random.Generator,
    *,
    epochs: int,
    batch_size: int,
    lr: float,
) -> Weights:
    """The weights after plain SGD over all local prototypes, shuffled anew in every epoch."""
    now = {name: np.array(value, np.float32) for name, value in weights.items()}
    for _ in range(epochs):
        order = rng.permutation(len(labels))
        for start in range(0, len(order), batch_size):
            some = order[start : start + batch_size]
            _, gradients = loss_and_gradients(now, vectors[some], labels[some], delta)
            for name, gradient in gradients.items():
                now[name] -= lr * gradient
    return now
