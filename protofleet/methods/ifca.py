"""IFCA (Ghosh et al., NeurIPS 2020): k models for k kinds of devices; a device takes the one that
errs least on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from protofleet.errors import FusionError
from protofleet.exchange.state import GlobalState, Upload
from protofleet.masking.rooms import Ceilings, Rooms, tensor_room
from protofleet.methods import local
from protofleet.recipe import Features, Learner, Phase, Recipe, Traits, Turn
from protofleet.settings.fields import setting
from protofleet.toolbox import fusions, summaries
from protofleet.toolbox.access import find, need, one_number
from protofleet.values.prototypes import Parts, Tensors
from protofleet.values.sums import Partial


@dataclass(frozen=True)
class Hyper:
    """IFCA's settings."""

    clusters: int = setting(2, "how many models", low=1)


def part(cluster: int) -> str:
    """What a cluster's model is called in the state."""
    return f"model{cluster}"


def cross_entropy(features: Features) -> float:
    """The mean loss of the device's data under the weights it was seen through."""
    # Less the largest logit before exp: a model that is sure, and wrong, about another cluster's
    # data would overflow here, and an infinite loss against another infinite one chooses nothing.
    logits = features.logits.astype(np.float64)
    top = logits.max(1)
    log_sum = top + np.log(np.exp(logits - top[:, None]).sum(1))
    return float((log_sum - logits[np.arange(len(logits)), features.labels]).mean())


def receive(turn: Turn[Hyper], me: Learner, state: Parts) -> None:
    """Load the model of least loss on one's own data; while a model is still missing, draw one
    instead.
    """
    k = turn.hyper.clusters
    models = {j: model for j in range(k) if (model := find(state, part(j), Tensors)) is not None}
    # ĵ = argmin_j F_i(θ_j), the paper's estimate of a device's cluster, on training samples in
    # evaluation mode: a pass a model. `argmin` takes the first of equals, so a tie is settled the
    # same everywhere.
    if len(models) == k:
        losses = []
        for j in range(k):
            me.load(models[j])
            losses.append(cross_entropy(me.features()))
        cluster = int(np.argmin(losses))
    else:
        # The paper initialises k models at random. Here all devices begin alike, which would leave
        # the k models equal and the choice without meaning; so clusters are drawn until every model
        # has been averaged over some devices of its own, and differs from the others by that.
        cluster = int(turn.rng("cluster").integers(k))
    # The loop above left the last model loaded, whichever was chosen.
    if cluster in models:
        me.load(models[cluster])
    me.memory["ifca"] = {"cluster": Tensors({"number": np.array(cluster, np.int64)})}


def train(turn: Turn[Hyper], me: Learner, state: Parts) -> Sequence[Phase]:
    """CE, on from the model that was chosen."""
    return [Phase(local.loss)]


def summarise(turn: Turn[Hyper], me: Learner, state: Parts) -> Parts:
    """All weights, which cluster they belong to, and n."""
    return {
        "weights": me.weights(),
        "data": summaries.sample_count(me.samples),
        **me.memory["ifca"],
    }


def fold(turn: Turn[Hyper], upload: Upload, weight: int) -> Partial:
    """Weights into the sums of their cluster, weighted by n."""
    cluster = int(one_number(upload.parts, "cluster", "number", 0))
    # A cluster beyond k would make a sum that no state has a place for: the upload would be taken
    # and its work lost in silence.
    if cluster >= turn.hyper.clusters:
        raise FusionError(f"cluster: there is no {cluster}, only 0 to {turn.hyper.clusters - 1}")
    samples = int(one_number(upload.parts, "data", "samples", 1))
    return fusions.fold_tensors(
        "weights", need(upload.parts, "weights", Tensors), weight * samples, cluster
    )


def fuse(turn: Turn[Any], total: Partial, before: GlobalState) -> GlobalState:
    """Every cluster's mean; a model that nobody chose stays as it was."""
    means = {part(j): fusions.mean_tensors("weights", total, j) for j in range(turn.hyper.clusters)}
    return GlobalState(
        {**before.shared, **{name: mean for name, mean in means.items() if mean is not None}}
    )


def rooms(turn: Turn[Hyper], ceilings: Ceilings) -> Rooms:
    """Rows of every cluster: nobody sees which one a device belongs to."""
    return {"weights/": tensor_room(ceilings, weighted=True, rows=turn.hyper.clusters)}


recipe = Recipe(
    name="ifca",
    title="average weights within k clusters; "
    "a device belongs to the model that fits its data best",
    hyper=Hyper,
    train=train,
    summarise=summarise,
    fold=fold,
    fuse=fuse,
    scorers=local.scorers,
    receive=receive,
    rooms=rooms,
    traits=Traits(mixed_backbones=False, common_start=True),
)
