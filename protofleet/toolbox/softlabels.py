"""Soft labels from prototypes: a small classifier taught on what the devices sent, and what it
makes of each class.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protofleet.errors import FusionError
from protofleet.values.prototypes import Ints, SoftLabels, Tensors

Optimizer = Literal["sgd", "adam"]
Average = Literal["softmax", "logits"]
Array = NDArray[np.float64]
# 0.01 and momentum 0.5 are the paper's for all training (IV-A5); 0.001 is what the authors' code
# gives Adam, whose other numbers are torch's defaults.
_LR: Mapping[Optimizer, float] = {"sgd": 0.01, "adam": 0.001}
_MOMENTUM = 0.5
_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8


@dataclass(frozen=True)
class ClassifierTraining:
    """How long, in what steps and at what rate a classifier is taught; no rate: the optimiser's."""

    epochs: int
    batch_size: int
    optimizer: Optimizer
    lr: float | None = None


class Model:
    """A classifier shaped like the fleet's: linear layers with ReLU between, the last one
    without, or with one as well (`relu`, the contract's `head_relu`).
    """

    def __init__(
        self, weights: Sequence[Array], biases: Sequence[Array], *, relu: bool = False
    ) -> None:
        self.weights, self.biases, self.relu = list(weights), list(biases), relu

    @staticmethod
    def fresh(sizes: Sequence[int], rng: np.random.Generator, *, relu: bool = False) -> Model:
        """Uniform in ±1/√(inputs), weights and biases, as torch begins its linear layers."""
        weights, biases = [], []
        for of, to in itertools.pairwise(sizes):
            bound = 1 / np.sqrt(of)
            weights.append(rng.uniform(-bound, bound, (of, to)))
            biases.append(rng.uniform(-bound, bound, to))
        return Model(weights, biases, relu=relu)

    @staticmethod
    def of(tensors: Tensors, *, relu: bool = False) -> Model:
        """From what a state holds."""
        # Copies, in doubles: teaching is in place, and a state's arrays belong to the state.
        layers = range(len(tensors.arrays) // 2)
        weights = [np.asarray(tensors[f"weight{i}"], np.float64) for i in layers]
        biases = [np.asarray(tensors[f"bias{i}"], np.float64) for i in layers]
        return Model(weights, biases, relu=relu)

    def tensors(self) -> Tensors:
        """As a state holds it."""
        named: dict[str, Any] = {
            f"weight{i}": w.astype(np.float32) for i, w in enumerate(self.weights)
        }
        return Tensors(
            named | {f"bias{i}": b.astype(np.float32) for i, b in enumerate(self.biases)}
        )

    def logits(self, x: ArrayLike) -> Array:
        """What it answers."""
        return self._layers(np.asarray(x, np.float64))[-1]

    def gradients(self, x: Array, y: Ints) -> list[Array]:
        """Of the mean cross-entropy, layer by layer: weight, bias."""
        # By hand rather than by torch, so that a coordinator needs numpy only; the tests hold it
        # against autograd. ∂CE/∂logits is softmax − one-hot; from there back, layer by layer.
        *inputs, logits = self._layers(x)
        error = softmax(logits)
        error[np.arange(len(y)), y] -= 1
        error /= len(y)
        # A ReLU behind the last layer lets nothing back where it answers 0.
        error *= (logits > 0) | (not self.relu)
        gradients: list[Array] = []
        for i in reversed(range(len(inputs))):
            gradients = [inputs[i].T @ error, error.sum(0), *gradients]
            # A ReLU lets through where its output, the next layer's input, is positive; at exactly
            # 0 torch's gradient is 0 too. For i = 0 this is of the data, and nobody reads it.
            error = (error @ self.weights[i].T) * (inputs[i] > 0)
        return gradients

    def parameters(self) -> list[Array]:
        """In the order of the gradients."""
        return [array for pair in zip(self.weights, self.biases, strict=True) for array in pair]

    def _layers(self, x: Array) -> list[Array]:
        outputs = [x]
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            out = outputs[-1] @ weight + bias
            bare = i == len(self.weights) - 1 and not self.relu
            outputs.append(out if bare else np.maximum(out, 0))
        return outputs


def teach(
    model: Model,
    x: ArrayLike,
    y: ArrayLike,
    rng: np.random.Generator,
    training: ClassifierTraining,
) -> None:
    """Cross-entropy on these points in place, in a new random order every epoch (FedMPS (7))."""
    rows, labels = np.asarray(x, np.float64), np.asarray(y, np.int64)
    # The model comes from a state and the points from uploads. Where they do not fit, this says so
    # in words of the fleet; numpy would speak of shapes.
    if len(labels) and (
        labels.max() >= len(model.biases[-1]) or rows.shape[1] != len(model.weights[0])
    ):
        raise FusionError(
            f"class {labels.max()}, d {rows.shape[1]}: more than this fleet's classifier can hold"
        )
    lr = _LR[training.optimizer] if training.lr is None else training.lr
    # Momenta begin at zero in every round, as the devices' do: only the classifier goes on.
    steps = _Steps(training.optimizer, lr, model.parameters())
    for _ in range(training.epochs):
        order = rng.permutation(len(labels))
        for start in range(0, len(order), training.batch_size):
            at = order[start : start + training.batch_size]
            steps.take(model.gradients(rows[at], labels[at]))


class _Steps:
    """SGD with momentum or Adam, as torch.optim has them."""

    def __init__(self, kind: Optimizer, lr: float, parameters: list[Array]) -> None:
        self.kind, self.lr, self.parameters, self.taken = kind, lr, parameters, 0
        self.first = [np.zeros_like(p) for p in parameters]
        self.second = [np.zeros_like(p) for p in parameters]

    def take(self, gradients: list[Array]) -> None:
        """Move the parameters in place."""
        # `[:]` throughout: the arrays are the model's own, and a plain assignment would move a
        # copy. Torch's SGD has m ← μm + g without a (1 − μ), so momentum 0.5 doubles the rate in
        # the long run.
        self.taken += 1
        for p, m, v, g in zip(self.parameters, self.first, self.second, gradients, strict=True):
            if self.kind == "sgd":
                m[:] = _MOMENTUM * m + g
                p[:] = p - self.lr * m
            else:
                m[:] = _BETA1 * m + (1 - _BETA1) * g
                v[:] = _BETA2 * v + (1 - _BETA2) * g * g
                size = np.sqrt(v / (1 - _BETA2**self.taken)) + _EPSILON
                p[:] = p - self.lr * m / (1 - _BETA1**self.taken) / size


def soft_labels(
    logits: ArrayLike, labels: ArrayLike, temperature: float, average: Average = "softmax"
) -> SoftLabels:
    """Per class the mean of softmax(logits / τ) over its points (FedMPS (8)), or the softmax of its
    mean logits.
    """
    scores, of = np.asarray(logits, np.float64), np.asarray(labels, np.int64)
    classes = np.unique(of)
    # (8) averages the devices' softmaxes; the authors' code the logits, which is the softmax of
    # their geometric mean and sharper where devices agree. One local prototype is one vote in both.
    votes = softmax(scores / temperature) if average == "softmax" else scores / temperature
    means = np.stack([votes[of == c].mean(0) for c in classes]) if len(classes) else votes[:0]
    return SoftLabels(
        classes, (means if average == "softmax" else softmax(means)).astype(np.float32)
    )


def kept_beside(now: SoftLabels, before: SoftLabels | None) -> SoftLabels:
    """The new soft labels, and the old ones of classes that have no new one."""
    if before is None:
        return now
    old = ~np.isin(before.classes, now.classes)
    if not old.any():
        return now
    rows = np.concatenate([before.probabilities[old], now.probabilities])
    return SoftLabels(np.concatenate([before.classes[old], now.classes]), rows)


def table(
    soft: SoftLabels | None, n_classes: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """A row a class id, and 1.0 where there is one: what a loss looks labels up in."""
    rows, have = np.zeros((n_classes, n_classes), np.float32), np.zeros(n_classes, np.float32)
    if soft is not None and soft.classes.size:
        rows[soft.classes] = soft.probabilities
        have[soft.classes] = 1
    return rows, have


def softmax(logits: Array) -> Array:
    """Row by row."""
    # Less the largest, which changes nothing but keeps e^x from overflowing.
    raised = np.exp(logits - logits.max(1, keepdims=True))
    shares: Array = raised / raised.sum(1, keepdims=True)
    return shares
