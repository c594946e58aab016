"""FedRep (Collins et al., ICML 2021): as FedPer, but a device trains its head first and then the
shared extractor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from protofleet.methods import fedavg, fedper, local
from protofleet.recipe import Learner, Phase, Recipe, Turn
from protofleet.settings.fields import setting
from protofleet.values.prototypes import Parts


@dataclass(frozen=True)
class Hyper:
    """FedRep's settings."""

    head_epochs: int = setting(10, "epochs of the head alone, before the extractor's", low=1)


def train(turn: Turn[Hyper], me: Learner, got: Parts) -> Sequence[Phase]:
    """The head with the extractor held still, then the extractor with the head held still; both by
    CE.
    """
    return [
        Phase(local.loss, train=("head",), epochs=turn.hyper.head_epochs),
        Phase(local.loss, train=("backbone",)),
    ]


recipe: Recipe[Hyper] = Recipe(
    name="fedrep",
    title="average the extractor only; a personal head is trained first, then the extractor",
    hyper=Hyper,
    train=train,
    summarise=fedper.summarise,
    fold=fedavg.fold,
    fuse=fedavg.fuse,
    scorers=local.scorers,
    receive=fedavg.receive,
    traits=fedavg.recipe.traits,
)
