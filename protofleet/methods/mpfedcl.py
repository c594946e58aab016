"""MP-FedCL (Qiao et al., arXiv 2304.01950): several prototypes a class and device, in a pool that
devices contrast their embeddings with, beside averaged weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from protofleet.exchange.state import GlobalState, Upload
from protofleet.methods import fedavg
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
from protofleet.toolbox import centroids, losses, pool, summaries
from protofleet.toolbox.access import need
from protofleet.values.prototypes import Parts, Prototypes
from protofleet.values.sums import Bag, Partial, bagged

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Hyper:
    """MP-FedCL's settings."""

    summary: Literal["kmeans", "dbscan", "single"] = setting(
        "kmeans", "prototypes of a class (MP-, DP- or SP-FedCL)"
    )
    clusters: int = setting(2, "K, prototypes a class with k-means", low=1, high=64)
    lam: float = setting(1.0, "weight of the contrast with the pool", low=0)
    tau: float = setting(0.07, "temperature of the contrast", low=0.001)
    padding: Literal["whole", "missing"] = setting(
        "whole", "where the class mean stands in: for all K, or for the rest"
    )
    prototypes_only: bool = setting(False, "send prototypes but no weights")
    neighbours: int = setting(5, "DBSCAN: how many samples make a place dense", low=1)
    reach: float = setting(
        1.5, "DBSCAN: radius, in median distances to the so many-th neighbour", low=0
    )
    most: int = setting(8, "DBSCAN: at most so many prototypes a class", low=1, high=64)


def loss(net: Net, batch: Batch, given: Given, hyper: Hyper) -> Tensor:
    """CE + λ·contrast with the pool, on unit vectors (MP-FedCL (12))."""
    from torch.nn import functional

    _, z = net.features(batch.x)
    unit = functional.normalize(z.float(), dim=1)
    contrast = losses.to_pool(
        unit, batch.y, given["pool"], given["filled"], given["have"], hyper.tau
    )
    return losses.cross_entropy(net.head(z), batch.y) + hyper.lam * contrast


def train(turn: Turn[Hyper], me: Learner, got: Parts) -> Sequence[Phase]:
    """One stretch, with the padded pool of the last state."""
    known, fleet, hyper = pool.members(got), turn.contract, turn.hyper
    slots, whole = _slots(hyper, known), hyper.padding == "whole"
    return [
        Phase(
            loss, given=pool.as_given(known, fleet.n_classes, fleet.embedding, slots, whole=whole)
        )
    ]


def summarise(turn: Turn[Hyper], me: Learner, got: Parts) -> Parts:
    """Prototypes from a clean pass after training, and all weights with n."""
    hyper, seen = turn.hyper, me.features()
    if hyper.summary == "kmeans":
        found = centroids.kmeans(
            seen.high, seen.labels, hyper.clusters, lambda c: turn.seed(f"k-means/{c}")
        )
    elif hyper.summary == "dbscan":
        found = centroids.dbscan(seen.high, seen.labels, hyper.neighbours, hyper.reach, hyper.most)
    else:
        found = summaries.class_means(seen.high, seen.labels, counts=False)
    return {"prototypes": found} | (
        {} if hyper.prototypes_only else dict(fedavg.summarise(turn, me, got))
    )


def fold(turn: Turn[Hyper], upload: Upload, weight: int) -> Partial:
    """Prototypes are kept whole, weights added up."""
    sent = {"prototypes": need(upload.parts, "prototypes", Prototypes)}
    weights = {} if turn.hyper.prototypes_only else fedavg.fold(turn, upload, weight)
    return {"pool": Bag.of(upload.agent, weight, sent), **weights}


def fuse(turn: Turn[Hyper], total: Partial, before: GlobalState) -> GlobalState:
    """The pool of all prototypes (8), and the mean of the weights (algorithm 1, line 9)."""
    sent = [need(parts, "prototypes", Prototypes) for _, _, parts in bagged(total, "pool")]
    if not sent:
        return before
    weights = fedavg.fuse(turn, total, GlobalState()).shared
    return GlobalState(shared={**pool.publish(sent, pool.members(before.shared)), **weights})


def _slots(hyper: Hyper, known: Sequence[Prototypes]) -> int:
    """Prototypes a class and device after padding."""
    return {"kmeans": hyper.clusters, "single": 1}.get(hyper.summary) or pool.widest(known)


def scorers(turn: Turn[Hyper], me: Learner, got: Parts) -> Mapping[str, Scorer]:
    """The nearest of the unpadded pool (13); the classifier beside it."""
    known = pool.members(got)
    return {"head": ByHead()} | (
        {"prototype": NearestPrototype(pool.joined(known))} if known else {}
    )


def paper_floats(turn: Turn[Hyper], sent: Sequence[Parts], after: GlobalState) -> int:
    """The padded prototypes of every device (table II); weights are counted apart."""
    fleet = turn.contract
    return (
        len(sent)
        * _slots(turn.hyper, pool.members(after.shared))
        * fleet.n_classes
        * fleet.embedding
    )


recipe = Recipe(
    name="mpfedcl",
    title="pool several k-means prototypes per class and device, contrast with the pool, average weights",
    hyper=Hyper,
    train=train,
    summarise=summarise,
    fold=fold,
    fuse=fuse,
    scorers=scorers,
    receive=fedavg.receive,
    paper_floats=paper_floats,
    traits=Traits(mixed_backbones=False, common_start=True),
)
