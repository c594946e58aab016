"""How a trained device classifies, as data: what the graph does to an embedding and what it is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from edge_agent.bundle import Reading
from protofleet.channel import Points
from protofleet.errors import UsageError
from protofleet.parts import heads
from protofleet.prototypes import Ints, Parts, Tensors
from protofleet.recipe import ByHead, LikeliestMixture, NearestPrototype, Recipe, Scorer, Turn


class _NeedsSamples(Exception):
    """The recipe looked at training data to say how it classifies."""


@dataclass
class _Nobody:
    """A device without samples: what a recipe's scorers make of the fleet's state alone."""

    agent: str
    classes: Ints
    samples: int
    memory: dict[str, Parts]

    def features(self, *, low: bool = False) -> NoReturn:
        raise _NeedsSamples

    def weights(self, *modules: str) -> NoReturn:
        raise _NeedsSamples

    def load(self, weights: Tensors) -> NoReturn:
        raise _NeedsSamples


def scorers_of(recipe: Recipe[Any], turn: Turn[Any], got: Parts) -> Mapping[str, Scorer]:
    """How devices classify by what they share: where it would take a device's own samples, its head is left."""
    try:
        return recipe.scorers(turn, _Nobody(turn.agent, np.zeros(0, np.int64), 0, {}), got)
    except _NeedsSamples:
        return {"head": ByHead()}


def chosen(scorers: Mapping[str, Scorer], by: str | None) -> tuple[Reading, Points | None]:
    """The named scorer, or the method's first: how it reads, and its points (a head's are in the network)."""
    name = by or next(iter(scorers))
    if name not in scorers:
        raise UsageError(f"this model does not classify by {name!r}", f"it does by {', '.join(scorers)}")
    match scorers[name]:
        case ByHead(of_unit):
            return Reading("head", of_unit=of_unit), None
        case NearestPrototype(prototypes, metric, through, of_unit):
            return Reading("prototypes", metric, of_unit, through), prototypes
        case LikeliestMixture(mixtures):
            return Reading("mixtures"), mixtures


def head_points(weights: Tensors) -> Points:
    """The last layer of a device's classifier."""
    return heads.rows(weights)
