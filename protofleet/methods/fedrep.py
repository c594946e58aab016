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


def train(turn: Turn[Hyper], me: Learner, state: Parts) -> Sequence[Phase]:
    """The head with the extractor held still, then the extractor with the head held still; both by
    CE.
    """
    # Algorithm 1 (FedRep): τ steps on the head, then one on the representation, so that the shared
    # part always learns under a head that already fits this device. The paper counts steps, or
    # epochs in its experiments; here both are epochs, and the second is the fleet's local epochs.
    # A frozen backbone is in evaluation mode: batch norm may not drift while only the head learns.
    return [
        Phase(local.loss, train=("head",), epochs=turn.hyper.head_epochs),
        Phase(local.loss, train=("backbone",)),
    ]


# The paper averages representations plainly over the chosen devices, with equal samples on each; by
# n it is FedAvg's sum, and FedPer, which differs only in `train`, stays comparable to the letter.
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
    rooms=fedavg.rooms,
    traits=fedavg.recipe.traits,
)
