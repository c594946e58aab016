"""FedIC (Zheng et al., AAAI 2026): class means are averaged, and heads combined, only among devices
that are alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from protofleet.errors import FusionError
from protofleet.exchange.state import GlobalState, Upload
from protofleet.methods import fedpac
from protofleet.recipe import (
    Batch,
    ByHead,
    Given,
    Learner,
    NearestPrototype,
    Net,
    Phase,
    Recipe,
    Scorer,
    Traits,
    Turn,
)
from protofleet.settings.fields import setting
from protofleet.toolbox import clusters, fusions, heads, losses, summaries
from protofleet.toolbox.access import as_given, find, need
from protofleet.util import seeds
from protofleet.values.prototypes import Head, Parts, Prototypes, Tensors
from protofleet.values.sums import Bag, Partial, bagged

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Hyper:
    """FedIC's settings."""

    lam: float = setting(1.0, "weight of the pull toward the device's anchors", low=0)
    scale: Literal["mean", "sum"] = setting(
        "mean", "formula 9 as a mean over the d coordinates, or as a sum"
    )
    clusters: int = setting(
        3, "clusters a class (the paper: 5 on CIFAR-100); never more than holders", low=1
    )
    combine: Literal["qp", "none"] = setting(
        "qp", "combine head rows by FedPAC's program, or keep one's own"
    )
    prototypes_only: bool = setting(False, "send class means only: no extractor, no head")


def anchors(got: Parts) -> Prototypes | None:
    """The cluster's mean where the device has the class, the global mean for the rest (FedIC
    (8)).
    """
    everyone, own = find(got, "prototypes", Prototypes), find(got, "anchors", Prototypes)
    return everyone if everyone is None or own is None else clusters.filled(own, everyone)


def loss(net: Net, batch: Batch, given: Given, hyper: Hyper) -> Tensor:
    """CE + λ·‖z − A_i[y]‖² (FedIC (9), (10))."""
    _, z = net.features(batch.x)
    pull = losses.to_prototype(z, batch.y, given["prototypes"], given["have"])
    times = z.shape[1] if hyper.scale == "sum" else 1
    return losses.cross_entropy(net.head(z), batch.y) + hyper.lam * times * pull


def train(turn: Turn[Hyper], me: Learner, got: Parts) -> Sequence[Phase]:
    """One stretch; the statistics of the extractor as it was received are taken before."""
    seen = me.features()
    me.memory["fedic"] = heads.statistics(seen.high, seen.labels)
    return [
        Phase(loss, given=as_given(anchors(got), turn.contract.n_classes, turn.contract.embedding))
    ]


def summarise(turn: Turn[Hyper], me: Learner, got: Parts) -> Parts:
    """Class means (2) and counts, the extractor, the head's rows of the device's classes, and the
    statistics.
    """
    seen = me.features()
    means = summaries.class_means(seen.high, seen.labels)
    if turn.hyper.prototypes_only:
        return {"prototypes": means}
    weights = me.weights("backbone", "head")
    head = heads.rows(weights, means.classes)  # other rows take part in no cluster
    return {
        "prototypes": means,
        "extractor": heads.without_rows(weights),
        "head": head,
        **me.memory["fedic"],
    }


def fold(turn: Turn[Hyper], upload: Upload, weight: int) -> Partial:
    """Means by their counts, the extractor by n; and every upload whole, for the clusters."""
    means = need(upload.parts, "prototypes", Prototypes)
    total = fusions.fold_means("prototypes", means, weight, by_count=True)  # (3)
    if not means.classes.size or not np.all(means.counts):
        raise FusionError("prototypes: some class, and samples of each, are due")
    if turn.hyper.prototypes_only:
        return {**total, "devices": Bag.of(upload.agent, weight, upload.parts)}
    extractor, n = need(upload.parts, "extractor", Tensors), int(np.sum(np.asarray(means.counts)))
    sent = heads.fold_heads("devices", upload, weight, turn.contract, means.classes)
    return {**total, **fusions.fold_tensors("extractor", extractor, weight * n), **sent}


def fuse(turn: Turn[Hyper], total: Partial, before: GlobalState) -> GlobalState:
    """Global means and extractor for all; for every device that sent its anchors, and its head's
    combined rows.
    """
    devices = bagged(total, "devices")
    if not devices:
        return before
    agents, weights, sent = zip(*devices, strict=True)
    means = [need(parts, "prototypes", Prototypes) for parts in sent]
    seed = turn.seed("clusters")
    groups = clusters.within_classes(means, turn.hyper.clusters, lambda c: seeds.seed_of(seed, c))
    own: list[Parts] = [{"anchors": each} for each in clusters.group_means(means, weights, groups)]
    shared: Parts = {
        "prototypes": fusions.means(
            "prototypes", total, find(before.shared, "prototypes", Prototypes)
        )
    }
    extractor = fusions.mean_tensors("extractor", total)
    if extractor is not None:
        shared = {**shared, "extractor": extractor}
        if turn.hyper.combine == "qp":
            rows = [need(parts, "head", Head) for parts in sent]
            combined = heads.mixed_within(rows, groups, heads.Collaboration.of(sent, turn.contract))
            own = [{**parts, "head": head} for parts, head in zip(own, combined, strict=True)]
    return GlobalState(shared, {**before.own, **dict(zip(agents, own, strict=True))})


def scorers(turn: Turn[Any], me: Learner, got: Parts) -> Mapping[str, Scorer]:
    """The combined head; the nearest anchor beside it."""
    known = anchors(got)
    return {"head": ByHead()} | ({} if known is None else {"prototype": NearestPrototype(known)})


recipe = Recipe(
    name="fedic",
    title="average class means and combine heads within clusters of devices that see a class alike",
    hyper=Hyper,
    train=train,
    summarise=summarise,
    fold=fold,
    fuse=fuse,
    scorers=scorers,
    receive=fedpac.receive,
    traits=Traits(mixed_backbones=False, common_start=True, server_needs=("scikit-learn",)),
)
