"""How a method's devices classify by what they share alone, without any device's samples."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from protofleet.exchange.published import Points
from protofleet.recipe import ByHead, LikeliestMixture, NearestPrototype, Recipe, Scorer, Turn
from protofleet.values.prototypes import Ints, Parts, Tensors

PRIMARY = ("prototype", "head")  # a run is known by the first of these that its method has


def primary(names: Collection[str]) -> str:
    """The evaluator by which a run, and what is exported of it, is known."""
    return next((name for name in PRIMARY if name in names), "head")


# A recipe's `scorers` takes a device, because some methods classify by what lies on it alone. The
# coordinator has none, so it hands in one without samples: a recipe that does not ask for them
# never notices, and one that does is stopped by this exception.


class _NeedsSamples(Exception):
    """The recipe looked at training data to say how it classifies."""


@dataclass
class _Nobody:
    """A device without samples."""

    agent: str
    classes: Ints
    samples: int
    memory: dict[str, Parts]

    def features(self, *, low: bool = False) -> NoReturn:
        raise _NeedsSamples

    def folds(self, parts: int) -> NoReturn:
        raise _NeedsSamples

    def validation(self) -> NoReturn:
        raise _NeedsSamples

    def weights(self, *modules: str) -> NoReturn:
        raise _NeedsSamples

    def load(self, weights: Tensors) -> NoReturn:
        raise _NeedsSamples


def scorers_of(recipe: Recipe[Any], turn: Turn[Any], state: Parts) -> Mapping[str, Scorer]:
    """By the state alone; where it would take a device's own samples, its head is left."""
    try:
        return recipe.scorers(turn, _Nobody(turn.agent, np.zeros(0, np.int64), 0, {}), state)
    except _NeedsSamples:
        return {"head": ByHead()}


def points_of(scorer: Scorer) -> Points | None:
    """What embeddings are compared with; None for a classifier, whose rows are in the network."""
    match scorer:
        case NearestPrototype(prototypes):
            return prototypes
        case LikeliestMixture(mixtures):
            return mixtures
        case ByHead(rows=rows):
            return rows
