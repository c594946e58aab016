"""FedProto (Tan et al., AAAI 2022): devices send class means and are pulled toward the fleet's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from protofleet.exchange.state import GlobalState, Upload
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
from protofleet.toolbox import buckets, fusions, losses, summaries
from protofleet.toolbox.access import as_given, find, need
from protofleet.values.prototypes import Parts, Prototypes
from protofleet.values.sums import Partial, Sum

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Hyper:
    """FedProto's settings."""

    lam: float = setting(
        1.0, "weight of the pull toward the global prototype (on a mean over batch and d)", low=0
    )
    weighted: bool = setting(
        False, "weigh a device's means by their sample counts (the official code does not)"
    )
    minimum: int = setting(
        1,
        "samples below which a device sends no mean of a class: of few it is mostly chance",
        low=1,
    )
    buckets: int = setting(
        1,
        "devices in so many buckets by the hash of their name, and what most buckets say instead of"
        " the mean of all: against devices that lie; several times as many as devices are best",
        low=1,
        high=4096,
    )


def loss(net: Net, batch: Batch, constants: Given, hyper: Hyper) -> Tensor:
    """CE + λ·mse(z, p_g[y]) (FedProto (5))."""
    # (5) pulls the device's *mean* of a class by a norm; the official code pulls every sample's
    # embedding by `MSELoss`. The second is what its results come from, so λ = 1 here is its λ = 1,
    # and a λ tuned at one embedding size does not carry over to another.
    _, z = net.features(batch.x)
    pull = losses.to_prototype(z, batch.y, constants["prototypes"], constants["have"])
    return losses.cross_entropy(net.head(z), batch.y) + hyper.lam * pull


def train(turn: Turn[Hyper], me: Learner, state: Parts) -> Sequence[Phase]:
    """One stretch, with the prototypes of the last state."""
    # Without prototypes the table is all zeros with `have` at 0: the first round has the shapes of
    # the later ones, so that one compiled step serves them all, and nothing is pulled.
    fleet = turn.contract
    prototypes = find(state, "prototypes", Prototypes)
    return [Phase(loss, given=as_given(prototypes, fleet.n_classes, fleet.embedding))]


def summarise(turn: Turn[Hyper], me: Learner, state: Parts) -> Parts:
    """Class means and counts, from a clean pass after training."""
    # (3). The official code collects embeddings batch by batch in the last local epoch, so its
    # early batches are seen through other weights than its late ones, with dropout on; not copied.
    features = me.features()
    means = summaries.class_means(features.high, features.labels)
    enough = means.classes[np.asarray(means.counts) >= turn.hyper.minimum]
    return {"prototypes": means.only(enough)}


def fold(turn: Turn[Hyper], upload: Upload, weight: int) -> Partial:
    """Means into one sum a class, and bucket where there are several."""
    means = need(upload.parts, "prototypes", Prototypes)
    sums = fusions.fold_means("prototypes", means, weight, by_count=turn.hyper.weighted)
    count, fleet = turn.hyper.buckets, turn.contract
    return buckets.placed(sums, upload.agent, count, fleet.seed, fleet.run)


def fuse(turn: Turn[Hyper], total: Partial, before: GlobalState) -> GlobalState:
    """Their mean per class, plain as in the official code (formula 6 with (3)'s weights on
    request).
    """
    # (6) as printed weighs by |D_i,c| / N_c and then divides by the number of holders once more,
    # which would shrink every prototype by that number. The official code takes the plain mean.
    sums = total.get("prototypes")
    if isinstance(sums, Sum):
        total = {"prototypes": buckets.agreed(sums, turn.hyper.buckets)}
    fused = fusions.means("prototypes", total, find(before.shared, "prototypes", Prototypes))
    return GlobalState(shared={"prototypes": fused})


def scorers(turn: Turn[Any], me: Learner, state: Parts) -> Mapping[str, Scorer]:
    """The nearest global prototype; the classifier beside it."""
    # The official code tests by squared distance to the *global* prototypes, among the device's own
    # classes. The head is reported beside it because it is often the better of the two.
    prototypes = find(state, "prototypes", Prototypes)
    return (
        {"head": ByHead()}
        if prototypes is None
        else {"prototype": NearestPrototype(prototypes), "head": ByHead()}
    )


recipe = Recipe(
    name="fedproto",
    title="exchange class means; pull every embedding toward its class's global mean",
    hyper=Hyper,
    train=train,
    summarise=summarise,
    fold=fold,
    fuse=fuse,
    scorers=scorers,
    traits=Traits(asynchronous=True),
)
