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


def receive(turn: Turn[Any], me: Learner, state: Parts) -> None:
    """The fleet's extractor, and the head that was combined for this device."""
    # A device that did not send last time finds the head that was combined for it when it last did,
    # to go on a newer extractor: `fuse` keeps the own parts of the devices that are silent.
    extractor, head = find(state, "extractor", Tensors), find(state, "head", Head)
    if extractor is not None:
        me.load(extractor)
    if head is not None:
        me.load(heads.with_rows(me.weights("head"), head))


def train(turn: Turn[Hyper], me: Learner, state: Parts) -> Sequence[Phase]:
    """The head by CE, then the extractor by CE + λ·mse(z, p_g[y]); each with the other held
    still.
    """
    hyper, fleet = turn.hyper, turn.contract
    # Statistics are taken with the extractor as it was received: H_i and H_j of the program are
    # only comparable while both devices look through the same weights. Hence before training.
    features = me.features()
    me.memory["fedpac"] = heads.statistics(features.high, features.labels)
    prototypes = find(state, "prototypes", Prototypes)
    # The official code pulls a class that is not among the global prototypes to the device's own
    # mean from before training; in the first round, where there are none at all, it does not pull.
    if prototypes is not None:
        prototypes = filled(prototypes, need(me.memory["fedpac"], "before", Prototypes))
    constants, decay = as_given(prototypes, fleet.n_classes, fleet.embedding), hyper.weight_decay
    # In this order, as in the paper: the extractor learns under a head that already fits it. Each
    # phase has momenta of its own.
    return [
        Phase(
            local.loss,
            train=("head",),
            epochs=hyper.head_epochs,
            lr=hyper.head_lr,
            weight_decay=decay,
        ),
        Phase(fedproto.loss, given=constants, train=("backbone",), weight_decay=decay),
    ]


def summarise(turn: Turn[Hyper], me: Learner, state: Parts) -> Parts:
    """Class means and counts after training; the weights; and the statistics from before."""
    # These means are of after training and become the global prototypes; "before" in the memory are
    # those of the program. The two are different points and must not stand in for each other.
    features = me.features()
    means = {"prototypes": summaries.class_means(features.high, features.labels)}
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
    # The program combines whole heads, so every head must have all its rows (FedIC's need not).
    every_class = np.arange(turn.contract.n_classes)
    bag = heads.fold_heads("devices", upload, weight, turn.contract, every_class)
    return {**total, **fusions.fold_tensors("extractor", extractor, weight * n), **bag}


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
        uploads = [parts for _, _, parts in devices]
        several = [need(parts, "head", Head) for parts in uploads]
        likeness = heads.Collaboration.of(uploads, turn.contract)
        # α_i = argmin αᵀ(diag V + D_i)α on the simplex, over all devices that sent: one small
        # program a device. The official code sets shares under 0.001 to zero afterwards, to clear
        # up after an interior-point solver; active sets end on exact zeros.
        for i, (agent, _, _) in enumerate(devices):
            alpha = likeness.weights(i, range(len(several)))
            own[agent] = {"head": heads.mixed(several, alpha)}
    return GlobalState({"prototypes": prototypes, "extractor": extractor}, own)


recipe = Recipe(
    name="fedpac",
    title="align features to global class means; average the extractor; "
    "combine heads for each device",
    hyper=Hyper,
    train=train,
    summarise=summarise,
    fold=fold,
    fuse=fuse,
    scorers=fedproto.scorers,
    receive=receive,
    traits=Traits(mixed_backbones=False, common_start=True, linear_head=True),
)
