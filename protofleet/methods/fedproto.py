"""FedProto (Tan et al., AAAI 2022): devices send class means and are pulled toward the fleet's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
from protofleet.toolbox import fusions, losses, summaries
from protofleet.toolbox.access import as_given, find, need
from protofleet.values.prototypes import Parts, Prototypes
from protofleet.values.sums import Partial

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


def loss(net: Net, batch: Batch, given: Given, hyper: Hyper) -> Tensor:
    """CE + λ·mse(z, p_g[y]) (FedProto (5))."""
    _, z = net.features(batch.x)
    pull = losses.to_prototype(z, batch.y, given["prototypes"], given["have"])
    return losses.cross_entropy(net.head(z), batch.y) + hyper.lam * pull


def train(turn: Turn[Hyper], me: Learner, got: Parts) -> Sequence[Phase]:
    """One stretch, with the prototypes of the last state."""
    fleet = turn.contract
    known = find(got, "prototypes", Prototypes)
    return [Phase(loss, given=as_given(known, fleet.n_classes, fleet.embedding))]


def summarise(turn: Turn[Hyper], me: Learner, got: Parts) -> Parts:
    """Class means and counts, from a clean pass after training."""
    seen = me.features()
    return {"prototypes": summaries.class_means(seen.high, seen.labels)}


def fold(turn: Turn[Hyper], upload: Upload, weight: int) -> Partial:
    """Means into one sum a class."""
    means = need(upload.parts, "prototypes", Prototypes)
    return fusions.fold_means("prototypes", means, weight, by_count=turn.hyper.weighted)


def fuse(turn: Turn[Hyper], total: Partial, before: GlobalState) -> GlobalState:
    """Their mean per class, plain as in the official code (formula 6 with (3)'s weights on
    request).
    """
    fused = fusions.means("prototypes", total, find(before.shared, "prototypes", Prototypes))
    return GlobalState(shared={"prototypes": fused})


def scorers(turn: Turn[Any], me: Learner, got: Parts) -> Mapping[str, Scorer]:
    """The nearest global prototype; the classifier beside it."""
    known = find(got, "prototypes", Prototypes)
    return (
        {"head": ByHead()}
        if known is None
        else {"prototype": NearestPrototype(known), "head": ByHead()}
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
