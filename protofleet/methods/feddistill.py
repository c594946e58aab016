"""FedDistill (Jeong et al., 2018): devices send their mean logits of each class and learn toward
the fleet's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from protofleet.errors import FusionError
from protofleet.exchange.state import GlobalState, Upload
from protofleet.methods import local
from protofleet.recipe import Batch, Given, Learner, Net, Phase, Recipe, Traits, Turn
from protofleet.settings.fields import setting
from protofleet.toolbox import fusions, losses, summaries
from protofleet.toolbox.access import as_given, find, need
from protofleet.toolbox.softlabels import softmax
from protofleet.values.prototypes import Parts, Prototypes, Tensors
from protofleet.values.sums import Partial, Sum

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Hyper:
    """FedDistill's settings."""

    lam: float = setting(1.0, "weight of the distillation", low=0)
    answers: Literal["logits", "probabilities"] = setting(
        "logits",
        "what is averaged and learned from: logits by squared error, or softmaxes by KL as in the paper",
    )
    others: bool = setting(
        False, "learn from the other devices only, as in the paper: its own share is taken out"
    )


def loss(net: Net, batch: Batch, given: Given, hyper: Hyper) -> Tensor:
    """CE + λ·mse(logits, global mean logits of y), or λ·KL(global mean softmax of y ‖ softmax)."""
    _, z = net.features(batch.x)
    logits = net.head(z)
    if hyper.answers == "logits":
        pull = losses.to_prototype(logits, batch.y, given["prototypes"], given["have"])
    else:
        pull = losses.kl_to_soft_labels(logits, batch.y, given["prototypes"], given["have"], 1.0)
    return losses.cross_entropy(logits, batch.y) + hyper.lam * pull


def receive(turn: Turn[Hyper], me: Learner, got: Parts) -> None:
    """Take what this device itself sent out of the means that it went into."""
    known = find(got, "answers", Prototypes)
    if not turn.hyper.others or known is None or known.counts is None:
        return
    sent = me.memory.get("sent", {})
    own, when = find(sent, "answers", Prototypes), find(sent, "when", Tensors)
    if own is not None and when is not None and int(when["round"]) == turn.round:
        mine = np.isin(known.classes, own.classes)
        n = known.counts[mine, None]
        vectors = known.vectors.astype(np.float64)
        vectors[mine] = (n * vectors[mine] - own.only(known.classes).vectors) / np.maximum(n - 1, 1)
        alone = mine & (known.counts < 2)
        known = Prototypes(known.classes[~alone], vectors[~alone].astype(np.float32))
    me.memory["others"] = {"answers": known}


def train(turn: Turn[Hyper], me: Learner, got: Parts) -> Sequence[Phase]:
    """One stretch, with the answers of the last state."""
    n = turn.contract.n_classes
    known = find(me.memory.get("others", {}) if turn.hyper.others else got, "answers", Prototypes)
    return [Phase(loss, given=as_given(known, n, n))]


def summarise(turn: Turn[Hyper], me: Learner, got: Parts) -> Parts:
    """The mean answer to each of its classes, from a clean pass after training."""
    seen = me.features()
    each = (
        seen.logits if turn.hyper.answers == "logits" else softmax(seen.logits.astype(np.float64))
    )
    sent: Parts = {"answers": summaries.class_means(each, seen.labels, counts=False)}
    if turn.hyper.others:
        me.memory["sent"] = {**sent, "when": Tensors({"round": np.array(turn.round, np.int64)})}
    return sent


def fold(turn: Turn[Hyper], upload: Upload, weight: int) -> Partial:
    """Answers into one sum a class."""
    answers = need(upload.parts, "answers", Prototypes)
    if answers.dim != turn.contract.n_classes:
        raise FusionError(
            f"answers: {answers.dim} numbers a row where {turn.contract.n_classes} are due"
        )
    return fusions.fold_means("answers", answers, weight, by_count=False)


def fuse(turn: Turn[Hyper], total: Partial, before: GlobalState) -> GlobalState:
    """Their plain mean per class; with how many devices are in it where one has to be taken out
    again.
    """
    added, known = total.get("answers"), find(before.shared, "answers", Prototypes)
    if not isinstance(added, Sum):
        return before
    fused = fusions.means("answers", total, known)
    if turn.hyper.others:
        holders = np.zeros(turn.contract.n_classes, np.int64)
        if known is not None and known.counts is not None:
            holders[known.classes] = known.counts
        holders[added.keys] = added.weights
        fused = Prototypes(fused.classes, fused.vectors, holders[fused.classes])
    return GlobalState(shared={"answers": fused})


recipe = Recipe(
    name="feddistill",
    title="exchange class-mean logits; distil toward the fleet's (the baseline that sends answers only)",
    hyper=Hyper,
    train=train,
    summarise=summarise,
    fold=fold,
    fuse=fuse,
    scorers=local.scorers,
    receive=receive,
    traits=Traits(own_width=("answers",)),
)
