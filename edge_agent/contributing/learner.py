"""A device as a method sees it that trains nothing: samples whose features are there already."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from protofleet.recipe import Features
from protofleet.values.prototypes import Floats, Ints, Parts, Tensors


@dataclass(eq=False)
class FeatureLearner:
    """Features and labels, in the place of a network and its samples."""

    agent: str
    rows: Floats
    labels: Ints
    memory: dict[str, Parts] = field(default_factory=dict)
    classes: Ints = field(init=False)
    samples: int = field(init=False)

    def __post_init__(self) -> None:
        self.classes, self.samples = np.unique(self.labels), len(self.labels)

    def features(self, *, low: bool = False) -> Features:
        """All of them; there are no logits."""
        return Features(self.rows, np.zeros((len(self.rows), 1), np.float32), self.labels)

    def folds(self, parts: int) -> Ints:
        """Which part each belongs to, where samples are held out in turn."""
        return np.arange(self.samples) % parts

    def validation(self) -> Features:
        """The same: nothing was fitted to them."""
        return self.features()

    def weights(self, *modules: str) -> Tensors:
        """There is no network."""
        return Tensors({})

    def load(self, weights: Tensors) -> None:
        """Into nothing."""
