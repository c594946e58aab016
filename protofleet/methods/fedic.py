"""FedIC (Zheng et al., AAAI 2026): class means are averaged, and heads combined, only among devices
that are alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from protofleet.errors import FusionError, SettingError
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
from protofleet.toolbox import clusters, combination, fusions, heads, losses, summaries
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
    combine: Literal["qp", "learnt", "none"] = setting(
        "qp",
        "combine head rows by FedPAC's program, by what each device learns on its validation "
        "samples (formula 12), or keep one's own",
    )
    prototypes_only: bool = setting(False, "send class means only: no extractor, no head")


def anchors(state: Parts) -> Prototypes | None:
    """The cluster's mean where the device has the class, the global mean for the rest (FedIC
    (8)).
    """
    # (8) asks whether the *device* has the class; its own part of the state holds exactly the
    # classes that it sent, so the two say the same. The global means go to all once, and to one
    # device only its cluster means: together they are A_i, for fewer bytes than A_i for each.
    everyone, own = find(state, "prototypes", Prototypes), find(state, "anchors", Prototypes)
    return everyone if everyone is None or own is None else clusters.filled(own, everyone)


def loss(net: Net, batch: Batch, constants: Given, hyper: Hyper) -> Tensor:
    """CE + λ·‖z − A_i[y]‖² (FedIC (9), (10))."""
    _, z = net.features(batch.x)
    pull = losses.to_prototype(z, batch.y, constants["prototypes"], constants["have"])
    # (9) as printed is a squared norm, so a sum over d; FedPAC, on which the paper builds, takes
    # the mean. λ is not given either, so the reading is a setting and 1 on the mean the default.
    times = z.shape[1] if hyper.scale == "sum" else 1
    return losses.cross_entropy(net.head(z), batch.y) + hyper.lam * times * pull


def receive(turn: Turn[Hyper], me: Learner, state: Parts) -> None:
    """The fleet's extractor, and the head that was combined for this device, or that it combines
    itself (12).
    """
    fedpac.receive(turn, me, state)
    mates = clusters.mates(state)
    if turn.hyper.combine != "learnt" or not mates:
        return
    if turn.contract.head_relu or turn.contract.unit_logits:
        raise SettingError(
            "fedic: combine=learnt knows nothing behind the rows, no ReLU and no length of one",
            "take combine=qp",
        )
    # (12) minimises the loss of the combined rows on samples that the device holds back: through
    # the extractor that was just received, so each device does it for itself on arrival.
    features, weights = me.validation(), me.weights("head")
    combined = combination.learnt(heads.rows(weights), mates, features.high, features.labels)
    me.load(heads.with_rows(weights, combined))


def train(turn: Turn[Hyper], me: Learner, state: Parts) -> Sequence[Phase]:
    """One stretch; for FedPAC's program the statistics of the extractor as it was received are
    taken before.
    """
    fleet = turn.contract
    if turn.hyper.combine == "qp":
        # Before training, with the extractor that all devices received: means taken by extractors
        # that have since gone their own ways could not be compared (FedPAC's official code does the
        # same). Nothing but the program reads them.
        features = me.features()
        me.memory["fedic"] = heads.statistics(features.high, features.labels)
    return [Phase(loss, given=as_given(anchors(state), fleet.n_classes, fleet.embedding))]


def summarise(turn: Turn[Hyper], me: Learner, state: Parts) -> Parts:
    """Class means (2) and counts, the extractor, the head's rows of the device's classes, and the
    statistics where rows are combined by them.
    """
    features = me.features()
    means = summaries.class_means(features.high, features.labels)
    if turn.hyper.prototypes_only:
        return {"prototypes": means}
    weights = me.weights("backbone", "head")
    head = heads.rows(weights, means.classes)  # other rows take part in no cluster
    return {
        "prototypes": means,
        "extractor": heads.without_rows(weights),
        "head": head,
        **me.memory.get("fedic", {}),
    }


def fold(turn: Turn[Hyper], upload: Upload, weight: int) -> Partial:
    """Means by their counts, the extractor by n; and every upload whole, for the clusters."""
    means = need(upload.parts, "prototypes", Prototypes)
    total = fusions.fold_means("prototypes", means, weight, by_count=True)  # (3)
    # A row of no samples would be a mean of weight zero in (7), and 0/0 where its cluster has no
    # other member: refused here, where it is one upload's fault, and not in the fusion of all.
    if not means.classes.size or not np.all(means.counts):
        raise FusionError("prototypes: some class, and samples of each, are due")
    if turn.hyper.prototypes_only:
        return {**total, "devices": Bag.of(upload.agent, weight, upload.parts)}
    extractor, n = need(upload.parts, "extractor", Tensors), int(np.sum(np.asarray(means.counts)))
    by_program = turn.hyper.combine == "qp"
    bag = heads.fold_heads(
        "devices", upload, weight, turn.contract, means.classes, with_statistics=by_program
    )
    return {**total, **fusions.fold_tensors("extractor", extractor, weight * n), **bag}


def fuse(turn: Turn[Hyper], total: Partial, before: GlobalState) -> GlobalState:
    """Global means and extractor for all; for every device that sent its anchors, and its head's
    combined rows.
    """
    devices = bagged(total, "devices")
    if not devices:
        return before
    agents, weights, uploads = zip(*devices, strict=True)
    means = [need(parts, "prototypes", Prototypes) for parts in uploads]
    # The paper names the cosine (6) and not the algorithm: k-means on directions. The bag is sorted
    # by agent and the seed is of round and class, so arrival does not choose the clusters.
    seed = turn.seed("clusters")
    groups = clusters.within_classes(means, turn.hyper.clusters, lambda c: seeds.seed_of(seed, c))
    own: list[Parts] = [
        {"anchors": anchor} for anchor in clusters.group_means(means, weights, groups)
    ]
    shared: Parts = {
        "prototypes": fusions.means(
            "prototypes", total, find(before.shared, "prototypes", Prototypes)
        )
    }
    extractor = fusions.mean_tensors("extractor", total)
    if extractor is not None:
        shared = {**shared, "extractor": extractor}
        rows = [need(parts, "head", Head) for parts in uploads]
        if turn.hyper.combine == "learnt":
            # β of (12) is learnt on the device's validation samples: every device needs the rows of
            # all its mates.
            own = [{**parts, **clusters.for_member(i, rows, groups)} for i, parts in enumerate(own)]
        if turn.hyper.combine == "qp":
            # The text puts the cost on the server, with no burden on clients, and builds on FedPAC:
            # so by default it is FedPAC's quadratic program among the members of the cluster, row
            # by row, since a cluster of (11) is one class's.
            likeness = heads.Collaboration.of(uploads, turn.contract)
            combined = heads.mixed_within(rows, groups, likeness)
            own = [{**parts, "head": head} for parts, head in zip(own, combined, strict=True)]
    # A device that did not send keeps the anchors and the rows it was given last.
    return GlobalState(shared, {**before.own, **dict(zip(agents, own, strict=True))})


def scorers(turn: Turn[Any], me: Learner, state: Parts) -> Mapping[str, Scorer]:
    """The combined head; the nearest anchor beside it."""
    pulls = anchors(state)
    return {"head": ByHead()} | ({} if pulls is None else {"prototype": NearestPrototype(pulls)})


recipe = Recipe(
    name="fedic",
    title="average class means and combine heads within clusters of devices that see a class alike",
    hyper=Hyper,
    train=train,
    summarise=summarise,
    fold=fold,
    fuse=fuse,
    scorers=scorers,
    receive=receive,
    traits=Traits(
        mixed_backbones=False,
        common_start=True,
        linear_head=True,
        server_needs=("scikit-learn",),
    ),
)
