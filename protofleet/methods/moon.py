"""MOON (Li et al., CVPR 2021): FedAvg whose devices keep their features near the global model's and
off those of the model they had after their last training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from protofleet.methods import fedavg, local
from protofleet.recipe import Batch, Given, Learner, Net, Phase, Recipe, Turn
from protofleet.settings.fields import setting
from protofleet.toolbox import losses
from protofleet.toolbox.access import find
from protofleet.values.prototypes import Parts, Tensors

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Hyper:
    """MOON's settings."""

    mu: float = setting(
        1.0, "weight of the model contrast (the paper tunes it among 1, 5, 10)", low=0
    )
    tau: float = setting(0.5, "temperature of the model contrast", low=0.001)


def loss(net: Net, batch: Batch, constants: Given, hyper: Hyper) -> Tensor:
    """CE + μ·contrast of the models."""
    # Three forward passes a step, as the paper has them; only the first has gradients. The contrast
    # is on the embedding, where the paper puts a two-layer projection behind it: all methods of the
    # house compare on one network, and this is the part of MOON that the comparison costs.
    _, z = net.features(batch.x)
    _, of_global = net.features_with(_module(constants, "global:"), batch.x)
    _, of_previous = net.features_with(_module(constants, "previous:"), batch.x)
    contrast = losses.between_models(z, of_global, of_previous, hyper.tau)
    return losses.cross_entropy(net.head(z), batch.y) + hyper.mu * contrast


def _module(constants: Given, prefix: str) -> Mapping[str, Tensor]:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in constants.items()
        if name.startswith(prefix)
    }


def train(turn: Turn[Hyper], me: Learner, state: Parts) -> Sequence[Phase]:
    """The extractor that the round starts from, and the one that this device's last training ended
    in.

    Before a first training both are the same: the contrast is then a constant and has no gradient.
    """
    # log 2 before a first training, where the official code leaves the term out: the same gradient,
    # and the same arrays from the first round on, so one compiled step serves the whole run.
    now = me.weights("backbone")
    previous = find(me.memory.get("moon", {}), "previous", Tensors) or now
    of_global = {f"global:{name}": array for name, array in now.arrays.items()}
    return [
        Phase(
            loss,
            given=of_global
            | {f"previous:{name}": array for name, array in previous.arrays.items()},
        )
    ]


def summarise(turn: Turn[Hyper], me: Learner, state: Parts) -> Parts:
    """As FedAvg; the extractor is remembered for the next round."""
    # Here and not in `receive`: at this moment the weights are still the device's own. It is its
    # last *training's* model even if rounds passed since (the official code's `model_buffer_size`
    # 1).
    me.memory["moon"] = {"previous": me.weights("backbone")}
    return fedavg.summarise(turn, me, state)


recipe: Recipe[Hyper] = Recipe(
    name="moon",
    title="FedAvg with features held to the global model's and off the device's previous model's",
    hyper=Hyper,
    train=train,
    summarise=summarise,
    fold=fedavg.fold,
    fuse=fedavg.fuse,
    scorers=local.scorers,
    receive=fedavg.receive,
    rooms=fedavg.rooms,
    traits=fedavg.recipe.traits,
)
