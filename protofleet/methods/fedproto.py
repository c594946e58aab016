"""FedProto (Tan et al., AAAI 2022): devices send class means and are pulled toward the fleet's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from protofleet.exchange.state import GlobalState, Upload
from protofleet.masking.rooms import Ceilings, Rooms, mean_room
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
from protofleet.statistics.voices import placed
from protofleet.toolbox import buckets, fusions, losses, summaries
from protofleet.toolbox.access import as_given, find, need
from protofleet.values.nearest import squared_distances
from protofleet.values.prototypes import Parts, Prototypes
from protofleet.values.sums import Partial, Sum

if TYPE_CHECKING:
    from torch import Tensor


BETTER = 0.05  # share of a device's samples that its own means must tell apart beyond the fleet's


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
    guard: bool = setting(
        False,
        "a device whose means mostly lie nearer to prototypes of other classes trains on those"
        " means instead of these prototypes, and classifies by its means where they tell its own"
        " samples apart better: against devices that lie",
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
    prototypes = believed(turn, me, state)
    return [Phase(loss, given=as_given(prototypes, fleet.n_classes, fleet.embedding))]


def believed(turn: Turn[Hyper], me: Learner, state: Parts) -> Prototypes | None:
    """The fleet's prototypes; those that a device's own samples speak against are its own means."""
    prototypes = find(state, "prototypes", Prototypes)
    if prototypes is None or not turn.hyper.guard or not me.samples:
        return prototypes
    features = me.features()
    own = _enough(turn, summaries.class_means(features.high, features.labels))
    own = own.only(prototypes.classes)
    if not own.classes.size:
        return prototypes
    # Among its own classes: those are what it tells apart, and of others it knows nothing.
    near = squared_distances(own.vectors, prototypes.only(own.classes).vectors).argmin(1)
    against = own.classes[near != np.arange(len(near))]
    # Networks that have hardly begun mix up a class now and then, though nobody lies: to doubt one
    # prototype at a time cost up to a point.
    if 2 * len(against) <= len(near):
        return prototypes
    return _with(prototypes, own.only(against))


def trusted(turn: Turn[Hyper], me: Learner, state: Parts) -> Prototypes | None:
    """What a device classifies by: the fleet's prototypes, unless its own means tell its own
    samples apart much better.
    """
    prototypes = find(state, "prototypes", Prototypes)
    if prototypes is None or not turn.hyper.guard or not me.samples:
        return prototypes
    features = me.features()
    own = _enough(turn, summaries.class_means(features.high, features.labels))
    own = own.only(prototypes.classes)
    asked = np.isin(features.labels, own.classes)
    if not asked.any():
        return prototypes
    rows, labels = features.high[asked], features.labels[asked]
    right = [
        float((some.classes[squared_distances(rows, some.vectors).argmin(1)] == labels).mean())
        for some in (prototypes.only(own.classes), own)
    ]
    return prototypes if right[1] - right[0] <= BETTER else _with(prototypes, own)


def _with(prototypes: Prototypes, own: Prototypes) -> Prototypes:
    """The fleet's, but for these."""
    rest = prototypes.only(np.setdiff1d(prototypes.classes, own.classes))
    return Prototypes(
        np.concatenate([rest.classes, own.classes]), np.concatenate([rest.vectors, own.vectors])
    )


def summarise(turn: Turn[Hyper], me: Learner, state: Parts) -> Parts:
    """Class means and counts, from a clean pass after training."""
    # (3). The official code collects embeddings batch by batch in the last local epoch, so its
    # early batches are seen through other weights than its late ones, with dropout on; not copied.
    features = me.features()
    means = summaries.class_means(features.high, features.labels)
    return {"prototypes": _enough(turn, means)}


def _enough(turn: Turn[Hyper], means: Prototypes) -> Prototypes:
    return means.only(means.classes[np.asarray(means.counts) >= turn.hyper.minimum])


def fold(turn: Turn[Hyper], upload: Upload, weight: int) -> Partial:
    """Means into one sum a class, and bucket where there are several."""
    means = need(upload.parts, "prototypes", Prototypes)
    sums = fusions.fold_means("prototypes", means, weight, by_count=turn.hyper.weighted)
    count, fleet = turn.hyper.buckets, turn.contract
    return placed(sums, upload.agent, count, fleet.seed, fleet.run)


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
    return _nearest(find(state, "prototypes", Prototypes))


def guarded_scorers(turn: Turn[Hyper], me: Learner, state: Parts) -> Mapping[str, Scorer]:
    """The same, by the prototypes that the device believes."""
    return _nearest(trusted(turn, me, state))


def _nearest(prototypes: Prototypes | None) -> Mapping[str, Scorer]:
    # The official code tests by squared distance to the *global* prototypes, among the device's own
    # classes. The head is reported beside it because it is often the better of the two.
    return (
        {"head": ByHead()}
        if prototypes is None
        else {"prototype": NearestPrototype(prototypes), "head": ByHead()}
    )


def rooms(turn: Turn[Hyper], ceilings: Ceilings) -> Rooms:
    """A row a class; none in buckets, where one device's sum would be its upload."""
    fleet, hyper = turn.contract, turn.hyper
    if hyper.buckets > 1:
        return {}
    rows, width = fleet.n_classes, fleet.embedding
    room = mean_room(rows, width, fleet.wire, ceilings, by_count=hyper.weighted)
    return {"prototypes": room}


recipe = Recipe(
    name="fedproto",
    title="exchange class means; pull every embedding toward its class's global mean",
    hyper=Hyper,
    train=train,
    summarise=summarise,
    fold=fold,
    fuse=fuse,
    scorers=guarded_scorers,
    rooms=rooms,
    traits=Traits(asynchronous=True),
)
