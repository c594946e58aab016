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


def loss(net: Net, batch: Batch, constants: Given, hyper: Hyper) -> Tensor:
    """CE + μ/2 ‖w − w_g‖²."""
    # Formula 2, h_k(w; w_t). `net.weights()` holds running statistics of batch norm too: they have
    # their share in the number but no gradient, so they are not held back.
    held_back = losses.proximal(net.weights(), constants)
    return local.loss(net, batch, constants, hyper) + hyper.mu * held_back


def train(turn: Turn[Hyper], me: Learner, state: Parts) -> Sequence[Phase]:
    """The weights a round starts from are the ones it is held to."""
    # Taken once, before the first step, so w_g stays where it was through all local epochs. The
    # paper also lets slow devices stop early (γ-inexact solutions); here all do all their epochs.
    return [Phase(loss, given=me.weights().arrays)]


# The paper samples devices by p_k = n_k / n and takes the plain mean. Here devices are drawn evenly
# and the mean is weighted by n, as in FedAvg, so that the two differ in nothing but the proximal
# term.
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
    rooms=fedavg.rooms,
    traits=fedavg.recipe.traits,
)
