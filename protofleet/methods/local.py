"""Local: every device alone. The line that any exchange has to beat."""

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
    Turn,
)
from protofleet.toolbox import losses, summaries
from protofleet.values.prototypes import Parts
from protofleet.values.sums import Partial

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Hyper:
    """Nothing to set."""


def loss(net: Net, batch: Batch, constants: Given, hyper: Any) -> Tensor:
    """CE."""
    _, z = net.features(batch.x)
    return losses.cross_entropy(net.head(z), batch.y)


def train(turn: Turn[Hyper], me: Learner, state: Parts) -> Sequence[Phase]:
    """Plain training."""
    return [Phase(loss)]


def summarise(turn: Turn[Hyper], me: Learner, state: Parts) -> Parts:
    """Nothing leaves the device."""
    return {}


def fold(turn: Turn[Hyper], upload: Upload, weight: int) -> Partial:
    """There is nothing to fold."""
    return {}


def fuse(turn: Turn[Hyper], total: Partial, before: GlobalState) -> GlobalState:
    """Nothing changes."""
    return before


def scorers(turn: Turn[Any], me: Learner, state: Parts) -> Mapping[str, Scorer]:
    """The classifier, or the device's own class means."""
    # By the network as it is at evaluation, whether it was trained here or came from the fleet:
    # weight averaging methods have no prototypes of their own, and are read by this so that one
    # column of a table can hold all methods.
    features = me.features()
    return {
        "prototype": NearestPrototype(summaries.class_means(features.high, features.labels)),
        "head": ByHead(),
    }


recipe = Recipe(
    name="local",
    title="every device alone: no exchange at all",
    hyper=Hyper,
    train=train,
    summarise=summarise,
    fold=fold,
    fuse=fuse,
    scorers=scorers,
    talks=lambda turn: False,  # no round is one of exchange: not even an empty upload is counted
)
