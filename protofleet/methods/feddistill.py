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
from protofleet.masking.rooms import Ceilings, Rooms, mean_room
from protofleet.methods import local
from protofleet.recipe import Batch, Given, Learner, Net, Phase, Recipe, Traits, Turn
from protofleet.settings.fields import setting
from protofleet.toolbox import fusions, losses, summaries
from protofleet.toolbox.access import as_given, find, need
from protofleet.toolbox.softlabels import softmax
from protofleet.values.prototypes import Parts, Prototypes, Tensors
from protofleet.values.sums import Bag, Partial, Sum, bagged

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Hyper:
    """FedDistill's settings."""

    lam: float = setting(1.0, "weight of the distillation", low=0)
    answers: Literal["logits", "probabilities"] = setting(
        "logits",
        "what is averaged and learned from: "
        "logits by squared error, or softmaxes by KL as in the paper",
    )
    others: bool = setting(
        False, "learn from the other devices only, as in the paper: its own share is taken out"
    )


def loss(net: Net, batch: Batch, constants: Given, hyper: Hyper) -> Tensor:
    """CE + λ·mse(logits, global mean logits of y), or λ·KL(global mean softmax of y ‖ softmax)."""
    _, z = net.features(batch.x)
    logits = net.head(z)
    if hyper.answers == "logits":
        # HtFLlib's form: an MSE over batch and classes. The paper has the cross-entropy between two
        # softmaxes; the KL below differs from it by the entropy of the target, which has no
        # gradient.
        pull = losses.to_prototype(logits, batch.y, constants["prototypes"], constants["have"])
    else:
        pull = losses.kl_to_soft_labels(
            logits, batch.y, constants["prototypes"], constants["have"], 1.0
        )
    return losses.cross_entropy(logits, batch.y) + hyper.lam * pull


def receive(turn: Turn[Hyper], me: Learner, state: Parts) -> None:
    """Take what this device itself sent out of the means that it went into."""
    answers = find(state, "answers", Prototypes)
    if not turn.hyper.others or answers is None or answers.counts is None:
        return
    last = me.memory.get("sent", {})
    own, when = find(last, "answers", Prototypes), find(last, "when", Tensors)
    counted = find(state, "counted", Tensors)
    # Only what went into *this* mean may be taken out: a device that sat the round out, or whose
    # upload came too late, would subtract what was never added. So each device is told which of its
    # uploads is in, and what it weighs there (less than a fresh one where it was late).
    if own is None or when is None or counted is None:
        me.memory["others"] = {"answers": answers}
        return
    if int(when["round"]) == int(counted["round"]):
        mine = np.isin(answers.classes, own.classes)
        share, n = int(counted["weight"]), answers.counts[mine, None]
        vectors = answers.vectors.astype(np.float64)
        # (n g − l_i) / (n − 1), the paper's mean over the others, undone from the mean over all.
        rest = np.maximum(n - share, 1)
        vectors[mine] = (n * vectors[mine] - share * own.only(answers.classes).vectors) / rest
        # n = 1: the answer is this device's own and nothing is left to learn from.
        alone = mine & (answers.counts <= share)
        answers = Prototypes(answers.classes[~alone], vectors[~alone].astype(np.float32))
    me.memory["others"] = {"answers": answers}


def train(turn: Turn[Hyper], me: Learner, state: Parts) -> Sequence[Phase]:
    """One stretch, with the answers of the last state."""
    n = turn.contract.n_classes
    source = me.memory.get("others", {}) if turn.hyper.others else state
    # An answer has one number a class, so the table of "prototypes" is C × C whatever the
    # embedding.
    return [Phase(loss, given=as_given(find(source, "answers", Prototypes), n, n))]


def summarise(turn: Turn[Hyper], me: Learner, state: Parts) -> Parts:
    """The mean answer to each of its classes, from a clean pass after training."""
    # HtFLlib averages over the batches of the training pass, while weights move; a clean pass says
    # what the device answers now, and says the same when it is asked twice.
    features = me.features()
    logits = features.logits
    answers = logits if turn.hyper.answers == "logits" else softmax(logits.astype(np.float64))
    upload: Parts = {"answers": summaries.class_means(answers, features.labels, counts=False)}
    if turn.hyper.others:
        me.memory["sent"] = {**upload, "when": Tensors({"round": np.array(turn.round, np.int64)})}
    return upload


def fold(turn: Turn[Hyper], upload: Upload, weight: int) -> Partial:
    """Answers into one sum a class."""
    answers = need(upload.parts, "answers", Prototypes)
    # The width is the number of classes and not the embedding's (`own_width` below), so the check
    # that the house makes of all prototypes does not reach it.
    if answers.dim != turn.contract.n_classes:
        raise FusionError(
            f"answers: {answers.dim} numbers a row where {turn.contract.n_classes} are due"
        )
    total = fusions.fold_means("answers", answers, weight, by_count=False)
    if not turn.hyper.others:
        return total
    counted = {"round": np.array(upload.round, np.int64), "weight": np.array(weight, np.int64)}
    return {**total, "counted": Bag.of(upload.agent, weight, {"counted": Tensors(counted)})}


def fuse(turn: Turn[Hyper], total: Partial, before: GlobalState) -> GlobalState:
    """Their plain mean per class; with how many devices are in it, and to each of them that it is,
    where one has to be taken out again.
    """
    added, earlier = total.get("answers"), find(before.shared, "answers", Prototypes)
    if not isinstance(added, Sum):
        return before
    fused = fusions.means("answers", total, earlier)
    if turn.hyper.others:
        # A class that nobody sent keeps its old answer, and so the old number of devices behind it.
        holders = np.zeros(turn.contract.n_classes, np.int64)
        if earlier is not None and earlier.counts is not None:
            holders[earlier.classes] = earlier.counts
        holders[added.keys] = added.weights
        fused = Prototypes(fused.classes, fused.vectors, holders[fused.classes])
    own = {agent: parts for agent, _, parts in bagged(total, "counted")}
    return GlobalState({"answers": fused}, own)


def rooms(turn: Turn[Hyper], ceilings: Ceilings) -> Rooms:
    """A row a class; none where a device's own share must be taken out again, which needs to know
    whose is in.
    """
    if turn.hyper.others:
        return {}
    fleet = turn.contract
    return {"answers": mean_room(fleet.n_classes, fleet.n_classes, fleet.wire, ceilings)}


recipe = Recipe(
    name="feddistill",
    title="exchange class-mean logits; distil toward the fleet's "
    "(the baseline that sends answers only)",
    hyper=Hyper,
    train=train,
    summarise=summarise,
    fold=fold,
    fuse=fuse,
    scorers=local.scorers,
    receive=receive,
    rooms=rooms,
    traits=Traits(own_width=("answers",)),
)
