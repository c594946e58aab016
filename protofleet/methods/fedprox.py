"""FedProx (Li et al., MLSys 2020): FedAvg whose devices are held near the fleet's weights while
they train.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from protofleet.methods import fedavg, local
from protofleet.recipe import Batch, Given, Learner, Net, Phase, Recipe, Turn
from protofleet.settings.fields import setting
from protofleet.toolbox import losses
from protofleet.values.prototypes import Parts

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Hyper:
    """FedProx's settings."""

    mu: float = setting(0.01, "weight of the proximal term", low=0)


def loss(net: Net, batch: Batch, given: Given, hyper: Hyper) -> Tensor:
    """CE + μ/2 ‖w − w_g‖²."""
    return local.loss(net, batch, given, hyper) + hyper.mu * losses.proximal(net.weights(), given)


def train(turn: Turn[Hyper], me: Learner, got: Parts) -> Sequence[Phase]:
    """The weights a round starts from are the ones it is held to."""
    return [Phase(loss, given=me.weights().arrays)]


recipe: Recipe[Hyper] = Recipe(
    name="fedprox",
    title="FedAvg with devices held near the fleet's weights",
    hyper=Hyper,
    train=train,
    summarise=fedavg.summarise,
    fold=fedavg.fold,
    fuse=fedavg.fuse,
    scorers=local.scorers,
    receive=fedavg.receive,
    traits=fedavg.recipe.traits,
)
