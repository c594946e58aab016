"""FedPAC (Xu, Tong, Huang, ICLR 2023): features are aligned to global class means, heads combined
per device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from protofleet.exchange.state import GlobalState, Upload
from protofleet.methods import fedproto, local
from protofleet.recipe import Learner, Phase, Recipe, Traits, Turn
from protofleet.settings.fields import setting
from protofleet.toolbox import fusions, heads, summaries
from protofleet.toolbox.access import as_given, find, need
from protofleet.toolbox.clusters import filled
from protofleet.values.prototypes import Head, Parts, Prototypes, Tensors
from protofleet.values.sums import Partial, bagged


@dataclass(frozen=True)
class Hyper:
    """FedPAC's settings."""

    lam: float = setting(
        1.0, "weight of the pull toward the global prototype (on a mean over batch and d)", low=0
    )
    head_epochs: int = setting(1, "epochs of the head alone, before the extractor's", low=1)
    head_lr: float = setting(0.1, "learning rate of the head", low=0)
    weight_decay: float = setting(5e-4, "weight decay of both phases", low=0)
    combine: bool = setting(True, "combine heads across devices; otherwise each keeps its own")
    prototypes_only: bool = setting(False, "send class means only: no extractor, no head")


def receive(turn: Turn[Any], me: Learner, got: Parts) -> None:
    """The fleet's extractor, and the head that was combined for this device."""
    extractor, head = find(got, "extractor", Tensors), find(got, "head", Head)
    if extractor is not None:
        me.load(extractor)
    if head is not None:
        me.load(heads.with_rows(me.weights("head"), head))


def train(turn: Turn[Hyper], me: Learner, got: Parts) -> Sequence[Phase]:
    """The head by CE, then the extractor by CE + λ·mse(z, p_g[y]); each with the other held
    still.
    """
    hyper, fleet = turn.hyper, turn.contract
    seen = me.features()
    me.memory["fedpac"] = heads.statistics(
        seen.high, seen.labels
    )  # with the extractor as it was received
    known = find(got, "prototypes", Prototypes)
    if (
        known is not None
    ):  # the official code pulls classes that are not among them to the device's own means
        known = filled(known, need(me.memory["fedpac"], "before", Prototypes))
    given, decay = as_given(known, fleet.n_classes, fleet.embedding), hyper.weight_decay
    return [
        Phase(
            local.loss,
            train=("head",),
            epochs=hyper.head_epochs,
            lr=hyper.head_lr,
            weight_decay=decay,
        ),
        Phase(fedproto.loss, given=given, train=("backbone",), weight_decay=decay),
    ]


def summarise(turn: Turn[Hyper], me: Learner, got: Parts) -> Parts:
    """Class means and counts after training; the weights; and the statistics from before."""
    seen = me.features()
    means = {"prototypes": summaries.class_means(seen.high, seen.labels)}
    if turn.hyper.prototypes_only:
        return means
    weights = me.weights("backbone", "head")
    extractor, head = heads.without_rows(weights), heads.rows(weights)
    return {**means, "extractor": extractor, "head": head, **me.memory["fedpac"]}


def fold(turn: Turn[Hyper], upload: Upload, weight: int) -> Partial:
    """Means by their counts, the extractor by n; heads stay apart."""
    means = need(upload.parts, "prototypes", Prototypes)
    total = fusions.fold_means("prototypes", means, weight, by_count=True)
    if turn.hyper.prototypes_only:
        return total
    extractor, n = need(upload.parts, "extractor", Tensors), int(np.sum(np.asarray(means.counts)))
    sent = heads.fold_heads(
        "devices", upload, weight, turn.contract, np.arange(turn.contract.n_classes)
    )
    return {**total, **fusions.fold_tensors("extractor", extractor, weight * n), **sent}


def fuse(turn: Turn[Hyper], total: Partial, before: GlobalState) -> GlobalState:
    """Their means, and for every device that sent the combination of all heads that fits its
    features.
    """
    if not total:
        return before
    prototypes = fusions.means("prototypes", total, find(before.shared, "prototypes", Prototypes))
    extractor, devices = fusions.mean_tensors("extractor", total), bagged(total, "devices")
    if extractor is None:
        return GlobalState(shared={"prototypes": prototypes})
    own = dict(before.own)
    if turn.hyper.combine:
        sent = [parts for _, _, parts in devices]
        several, by = (
            [need(parts, "head", Head) for parts in sent],
            heads.Collaboration.of(sent, turn.contract),
        )
        for i, (agent, _, _) in enumerate(devices):
            own[agent] = {"head": heads.mixed(several, by.weights(i, range(len(several))))}
    return GlobalState({"prototypes": prototypes, "extractor": extractor}, own)


recipe = Recipe(
    name="fedpac",
    title="align features to global class means; average the extractor; combine heads for each device",
    hyper=Hyper,
    train=train,
    summarise=summarise,
    fold=fold,
    fuse=fuse,
    scorers=fedproto.scorers,
    receive=receive,
    traits=Traits(mixed_backbones=False, common_start=True),
)
