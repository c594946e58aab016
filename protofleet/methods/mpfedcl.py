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


def loss(net: Net, batch: Batch, constants: Given, hyper: Hyper) -> Tensor:
    """CE + λ·contrast with the pool, on unit vectors (MP-FedCL (12))."""
    from torch.nn import functional

    # (11) writes plain inner products, whose size is the embedding's; at τ = 0.07 only cosines keep
    # the exponent in a range where a gradient is left. FedPCL, whose loss this is, normalises.
    _, z = net.features(batch.x)
    unit = functional.normalize(z.float(), dim=1)
    contrast = losses.to_pool(
        unit, batch.y, constants["pool"], constants["filled"], constants["have"], hyper.tau
    )
    return losses.cross_entropy(net.head(z), batch.y) + hyper.lam * contrast


def train(turn: Turn[Hyper], me: Learner, state: Parts) -> Sequence[Phase]:
    """One stretch, with the padded pool of the last state."""
    members, fleet, hyper = pool.members(state), turn.contract, turn.hyper
    slots, whole = _slots(hyper, members), hyper.padding == "whole"
    # Padded by every device for itself (9), (10): what stands in can be derived from what was sent,
    # so it need not travel, and inference (13) wants the pool without it.
    constants = pool.as_given(members, fleet.n_classes, fleet.embedding, slots, whole=whole)
    return [Phase(loss, given=constants)]


def summarise(turn: Turn[Hyper], me: Learner, state: Parts) -> Parts:
    """Prototypes from a clean pass after training, and all weights with n."""
    hyper, features = turn.hyper, me.features()
    if hyper.summary == "kmeans":  # (7); a seed a class, so that one class does not shift another's
        prototypes = centroids.kmeans(
            features.high, features.labels, hyper.clusters, lambda c: turn.seed(f"k-means/{c}")
        )
    elif hyper.summary == "dbscan":  # the paper's DP-FedCL, whose radius it does not give
        prototypes = centroids.dbscan(
            features.high, features.labels, hyper.neighbours, hyper.reach, hyper.most
        )
    else:  # SP-FedCL
        prototypes = summaries.class_means(features.high, features.labels, counts=False)
    # Line 19 of algorithm 1 clusters what the *local* weights see, though the averaged ones will
    # read the pool: they begin alike every round, so what one sees is near what the other sees.
    return {"prototypes": prototypes} | (
        {} if hyper.prototypes_only else dict(fedavg.summarise(turn, me, state))
    )


def fold(turn: Turn[Hyper], upload: Upload, weight: int) -> Partial:
    """Prototypes are kept whole, weights added up."""
    member = {"prototypes": need(upload.parts, "prototypes", Prototypes)}
    weights = {} if turn.hyper.prototypes_only else fedavg.fold(turn, upload, weight)
    return {"pool": Bag.of(upload.agent, weight, member), **weights}


def fuse(turn: Turn[Hyper], total: Partial, before: GlobalState) -> GlobalState:
    """The pool of all prototypes (8), and the mean of the weights (algorithm 1, line 9)."""
    members = [need(parts, "prototypes", Prototypes) for _, _, parts in bagged(total, "pool")]
    if not members:
        return before
    # Into an empty state, since `fuse` of nothing gives back what it was handed: with prototypes
    # only, the whole old state would come along.
    weights = fedavg.fuse(turn, total, GlobalState()).shared
    return GlobalState(shared={**pool.publish(members, pool.members(before.shared)), **weights})


def _slots(hyper: Hyper, members: Sequence[Prototypes]) -> int:
    """Prototypes a class and device after padding."""
    # DBSCAN finds a number of its own for each class: K is then the most that anybody has of any.
    return {"kmeans": hyper.clusters, "single": 1}.get(hyper.summary) or pool.widest(members)


def scorers(turn: Turn[Hyper], me: Learner, state: Parts) -> Mapping[str, Scorer]:
    """The nearest of the unpadded pool (13); the classifier beside it."""
    members = pool.members(state)
    # Squared distance of embeddings as they are (13), though training compared directions: the
    # paper does both. Its figures are over all classes, so read them as `prototype_all_classes`.
    return {"head": ByHead()} | (
        {"prototype": NearestPrototype(pool.joined(members))} if members else {}
    )


def paper_floats(turn: Turn[Hyper], uploads: Sequence[Parts], after: GlobalState) -> int:
    """The padded prototypes of every device (table II); weights are counted apart."""
    # On MNIST 5,120 = K 2 × 10 classes × d 256 a client, also of one that holds a single class.
    fleet = turn.contract
    return (
        len(uploads)
        * _slots(turn.hyper, pool.members(after.shared))
        * fleet.n_classes
        * fleet.embedding
    )


recipe = Recipe(
    name="mpfedcl",
    title="pool several k-means prototypes per class and device, "
    "contrast with the pool, average weights",
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
