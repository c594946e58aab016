"""FedAvg (McMahan et al., AISTATS 2017): devices train the same network and the coordinator
averages its weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from protofleet.exchange.state import GlobalState, Upload
from protofleet.masking.rooms import Ceilings, Rooms, tensor_room
from protofleet.methods import local
from protofleet.recipe import Learner, Phase, Recipe, Traits, Turn
from protofleet.settings.fields import setting
from protofleet.toolbox import fusions, summaries
from protofleet.toolbox.access import find, need, one_number
from protofleet.values.prototypes import Parts, Tensors
from protofleet.values.sums import Partial


@dataclass(frozen=True)
class Hyper:
    """FedAvg's settings."""

    weighted: bool = setting(
        True, "weigh a device by its samples (no: the plain mean, as some papers' code has it)"
    )


def receive(turn: Turn[Any], me: Learner, state: Parts) -> None:
    """The device goes on from the fleet's weights."""
    weights = find(state, "weights", Tensors)
    # None only before the first fusion: then all devices hold the common start that the fleet's
    # seed gives (`common_start`), without which a mean of weights would mean nothing (the paper's
    # fig. 1).
    if weights is not None:
        me.load(weights)


def train(turn: Turn[Hyper], me: Learner, state: Parts) -> Sequence[Phase]:
    """CE."""
    return [Phase(local.loss)]


def summarise(turn: Turn[Any], me: Learner, state: Parts) -> Parts:
    """All weights, and how many samples stand behind them."""
    return {"weights": me.weights(), "data": summaries.sample_count(me.samples)}


def fold(turn: Turn[Any], upload: Upload, weight: int) -> Partial:
    """Weights into sums, weighted by n."""
    weights = need(upload.parts, "weights", Tensors)
    return fusions.fold_tensors("weights", weights, weight * _samples(upload))


def fold_by_choice(turn: Turn[Hyper], upload: Upload, weight: int) -> Partial:
    """Weighted by n, or each device counting once."""
    # The FedAvg that FedMPS's public code compares itself with: Σ_k w_k / K. n is sent all the same
    # and is held to what it must be. Other methods take `fold`, which has no settings of its own.
    samples = _samples(upload)
    times = samples if turn.hyper.weighted else 1
    return fusions.fold_tensors("weights", need(upload.parts, "weights", Tensors), weight * times)


def _samples(upload: Upload) -> int:
    # n_k of Algorithm 1. It is a number that a device claims, so it is held to be one whole number
    # from 1 up; a bare 0 would let an upload count for nothing and still be answered as taken.
    return int(one_number(upload.parts, "data", "samples", 1))


def fuse(turn: Turn[Any], total: Partial, before: GlobalState) -> GlobalState:
    """Their mean."""
    # w ← Σ_k (n_k / n) w_k: the sums are exact whole numbers, so the one division here is the only
    # rounding and the order in which devices arrived leaves no trace.
    weights = fusions.mean_tensors("weights", total)
    return before if weights is None else GlobalState(shared={"weights": weights})


def rooms(turn: Turn[Any], ceilings: Ceilings) -> Rooms:
    """A sum for every tensor, weighted by n."""
    return {"weights/": tensor_room(ceilings, weighted=True)}


recipe = Recipe(
    name="fedavg",
    title="average the weights of one common network (the baseline that ships models)",
    hyper=Hyper,
    train=train,
    summarise=summarise,
    fold=fold_by_choice,
    fuse=fuse,
    scorers=local.scorers,
    receive=receive,
    rooms=rooms,
    traits=Traits(mixed_backbones=False, common_start=True, asynchronous=True),
)
