"""grow: `fleet`, and where its frozen extractor is the bound, the extractor trains on in rounds.

What devices say adds up only under one extractor, so it never changes while they say it. Between
two such exchanges it may: devices train its weights against the classifier that came of their sums,
which stays as it is (FedBABU, Oh et al. 2022, trains a body under a head that stays, too), and the
weights are averaged as FedAvg averages them. What came of it is another extractor, a new lineage:
everything is said anew under it, and it takes the old one's place only if the fleet counts better.
"""

# Theory of operation
#
# A run is a first exchange and then period after period, of `train` + 2 rounds each:
#
#     stage        rounds    a device sends                   the state has
#     contribute   1         contribution, weights            weights, head, total to count against
#     count        1         counts against that total        weights, head, how sure it is
#     train        `train`   weights, trained under the head  the mean weights; the head as it was
#     contribute   ...
#
# The first stage of the run is the first `contribute`: the extractor as it began is the first
# lineage. With the second `count`, and every one after it, comes a verdict (`statistics.adoption`):
# the new lineage's held-out log-loss and accuracy against those of the one that was adopted last.
# If they are not better, the state is again the adopted one's, weights and head; the next period
# starts from there, in other batches. Training goes on from what was adopted in either case.
#
# Held out of what? Of the sums, as always, and of training: a network that was trained on a sample
# is right about it, whatever is taken out of the sums. Five folds of samples that were all trained
# on would adopt every network that learns them by heart. So a part of FOLDS of each device's
# samples is trained on in no period (`SPARED`, by what is in a sample, so that it is the same one
# in every round and copies go together), and is what all counts are of, the first lineage's, too.
# It contributes like all others: a mean may use samples that a gradient must not.
#
# Cross-entropy is of score / T as the fleet calibrated it, over the classes of its head; of others
# there is no row to learn by. The head is in no network: it is a constant of the loss, and what the
# network has as its own head is not trained, sent or asked.
#
# Rows of such a head are 10 to 200 times as long as those of one that was learned beside its
# features, as they undo whatever scale these have; so are gradients, and the learning rate is
# divided by it. For the same reason running statistics of batch norms stay as they were: the head
# is of features as they are when the network classifies, and for others it is no classifier at all.
#
# The round says the stage, so a device that comes late is in step. A device that did not contribute
# in the round before has nothing in the total and does not count; `memory` has the contribution for
# that one round. Who has nothing to send sends nothing, and the round does without.
#
# `server` keeps what a refusal goes back to (weights, head, calibration) and the figures that the
# next verdict compares with. The weights of the first round are the common start, sent so that the
# coordinator, which has no network, can go back to it.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from protofleet.errors import FusionError
from protofleet.exchange import learned
from protofleet.exchange.published import document_part, plain_of
from protofleet.exchange.state import GlobalState, Upload
from protofleet.masking.rooms import Ceilings, Rooms
from protofleet.methods import fedavg, fleet
from protofleet.recipe import Batch, Given, Learner, Net, Phase, Recipe, Traits, Turn
from protofleet.settings.fields import from_plain, setting
from protofleet.statistics import contribution as contributions
from protofleet.statistics import counts
from protofleet.statistics.adoption import Standard, Verdict
from protofleet.statistics.contribution import RANK, contribution
from protofleet.statistics.held_out import FOLDS, Samples
from protofleet.statistics.prior import SMOOTH
from protofleet.toolbox import fusions, losses, summaries
from protofleet.toolbox.access import find
from protofleet.values.prototypes import Floats, Head, Parts, Tensors
from protofleet.values.sums import Partial, from_tensors

if TYPE_CHECKING:
    from torch import Tensor

Stage = Literal["contribute", "count", "train"]

SPARED = 0  # the fold that is never trained on
WEIGHTS = "weights"
_OWN = "contributed"
_STANDARD = "standard"  # of the adopted lineage
_HEAD = (learned.HEAD, learned.CALIBRATION)
_ADOPTED = (WEIGHTS, *_HEAD)  # what a refusal goes back to


@dataclass(frozen=True)
class Hyper:
    """grow's settings."""

    train: int = setting(20, "rounds of training from one lineage to the next", low=1)
    rank: int = setting(
        RANK, "directions of a device's spread that it sends, about d bytes each", low=0, high=1024
    )
    minimum: int = setting(5, "samples below which a device says nothing of a class", low=1)
    smooth: float = setting(
        SMOOTH, "samples that a device's prior adds to each class; large: no prior", low=1e-6
    )
    alarms: float = setting(
        0.05, "share of known things that may be called unknown", low=0.001, high=0.5
    )


def stage(turn: Turn[Hyper]) -> Stage:
    """What a round is for."""
    place = (turn.round - 3) % (turn.hyper.train + 2)
    if place < turn.hyper.train:
        return "train"
    return "contribute" if place == turn.hyper.train else "count"


def train(turn: Turn[Hyper], me: Learner, state: Parts) -> Sequence[Phase]:
    """The extractor alone, under the fleet's head, on all samples but those that are spared."""
    head, sure = find(state, learned.HEAD, Head), learned.calibration(state)
    if stage(turn) != "train" or head is None or sure is None:
        return []
    learned_from = me.folds(FOLDS) != SPARED
    if not np.isin(me.classes, head.classes).all():
        learned_from &= np.isin(me.features().labels, head.classes)
    rows = np.flatnonzero(learned_from)
    if not len(rows):
        return []
    # A class without a row gets one that is never the best, so that shapes stay from round to
    # round; none of its samples is here.
    n, width = turn.contract.n_classes, turn.contract.embedding
    weight, bias = np.zeros((n, width), np.float32), np.full(n, -1e9, np.float32)
    weight[head.classes] = head.weight / sure.temperature
    bias[head.classes] = head.bias / sure.temperature
    constants = {"weight": weight, "bias": bias}
    rate = _rate(turn, weight[head.classes])
    return [Phase(loss, constants, train=("backbone",), lr=rate, rows=rows, still=True)]


def _rate(turn: Turn[Hyper], rows: Floats) -> float:
    """The fleet's learning rate, for a head as steep as this one."""
    steep = float(np.linalg.norm(rows, axis=1).mean())
    return turn.contract.training.lr / max(steep, 1.0)


def loss(net: Net, batch: Batch, constants: Given, hyper: Any) -> Tensor:
    """CE of the fleet's calibrated scores."""
    _, z = net.features(batch.x)
    return losses.cross_entropy(z @ constants["weight"].T + constants["bias"], batch.y)


def summarise(turn: Turn[Hyper], me: Learner, state: Parts) -> Parts:
    """As the stage has it."""
    now = stage(turn)
    if now == "train":
        me.memory.pop(_OWN, None)  # of an extractor that is no more
        return _weights(me) if learned.HEAD in state else {}
    seen = me.features()
    enough = fleet.enough(seen.labels, turn.hyper.minimum)
    features, labels = seen.high[enough], seen.labels[enough]
    if now == "contribute":
        start = {} if WEIGHTS in state else _weights(me)
        if not len(labels):
            return start
        own = contribution(features, labels, fleet.GRID, turn.hyper.rank)
        me.memory[_OWN] = contributions.parts_of(own)
        return {**me.memory[_OWN], **start}
    earlier = me.memory.pop(_OWN, None)
    if earlier is None or learned.MEANS not in state:
        return {}
    unseen = (me.folds(FOLDS) == SPARED)[enough]
    mine = contributions.from_parts(earlier)
    own_samples = Samples(features.astype(np.float64), labels, mine, fleet.GRID, unseen)
    return counts.parts_of(counts.count(learned.moments(state), own_samples))


def _weights(me: Learner) -> Parts:
    return {WEIGHTS: me.weights("backbone"), "data": summaries.sample_count(me.samples)}


def fold(turn: Turn[Hyper], upload: Upload, weight: int) -> Partial:
    """What the stage has, and nothing else."""
    now, parts = stage(turn), upload.parts
    if (counts.COUNTS in parts) != (now == "count") or (now == "train" and WEIGHTS not in parts):
        raise FusionError(f"the fleet is to {now} in round {turn.round}")
    if now == "count":
        return counts.fold(counts.from_parts(parts))
    partial = fedavg.fold(turn, upload, weight) if WEIGHTS in parts else {}
    if now == "train" or contributions.MEANS not in parts:
        return partial
    own = contributions.from_parts(parts)
    if own.means.dim != turn.contract.embedding:
        raise FusionError(f"prototypes of {own.means.dim} numbers, not {turn.contract.embedding}")
    return {**partial, **contributions.fold(own, fleet.GRID)}


def fuse(turn: Turn[Hyper], total: Partial, before: GlobalState) -> GlobalState:
    """The mean weights; the sums' classifier; or the verdict, and what follows from it."""
    now, alarms = stage(turn), turn.hyper.alarms
    if not total:
        return before
    weights = find(before.shared, WEIGHTS, Tensors)
    # In a round of exchange an upload that came late from one of training may be among the others:
    # what is contributed is of the weights that are there.
    if now == "train" or weights is None:
        weights = fusions.mean_tensors(WEIGHTS, total) or weights
    rest: Parts = {} if weights is None else {WEIGHTS: weights}
    if now == "train":
        head = {name: before.shared[name] for name in _HEAD if name in before.shared}
        return GlobalState({**head, **rest}, server=before.server)
    if now == "contribute":
        sums = {name: part for name, part in total.items() if not name.startswith(WEIGHTS)}
        made = learned.state(sums, false_alarms=alarms)[0]
        return GlobalState({**made.shared, **rest}, server={**before.server, **made.server})
    earlier = find(before.server, learned.TOTAL, Tensors)
    if earlier is None:
        return before
    counted = counts.total(total)
    made = learned.state(from_tensors(earlier), counted, false_alarms=alarms)[0]
    return _judged({**made.shared, **rest}, Standard.of(counted), before.server)


def _judged(fresh: Parts, standard: Standard, server: Parts) -> GlobalState:
    """The lineage that was just counted, or the one that was adopted before."""
    earlier = {name: server[_name(name)] for name in _ADOPTED if _name(name) in server}
    news: Parts = {}
    if earlier:
        before = from_plain(Standard, plain_of(server[_STANDARD], _STANDARD))
        verdict = Verdict(before, standard)
        news = {learned.VERDICT: document_part(verdict)}
        if not verdict.is_better:
            rest = {name: part for name, part in server.items() if name != learned.TOTAL}
            return GlobalState({**earlier, **news}, server=rest)
    shown = {name: fresh[name] for name in _ADOPTED if name in fresh}
    adopted = {_name(name): part for name, part in shown.items()}
    return GlobalState({**shown, **news}, server={**adopted, _STANDARD: document_part(standard)})


def _name(part: str) -> str:
    return f"adopted {part}"


def rooms(turn: Turn[Hyper], ceilings: Ceilings) -> Rooms:
    """Those of the stage's sums."""
    now, contract = stage(turn), turn.contract
    if now == "count":
        return counts.rooms()
    weights = fedavg.rooms(turn, ceilings)
    if now == "train":
        return weights
    own = contributions.rooms(fleet.GRID, contract.n_classes, contract.embedding, ceilings)
    return {**own, **weights} if turn.round == 1 else own


recipe = Recipe(
    name="grow",
    title="fleet, whose extractor trains on in rounds under the head of its sums, and is adopted "
    "where held-out samples are classified better",
    hyper=Hyper,
    train=train,
    summarise=summarise,
    fold=fold,
    fuse=fuse,
    scorers=fleet.scorers,
    receive=fedavg.receive,
    rooms=rooms,
    precision=fleet.recipe.precision,
    traits=Traits(
        mixed_backbones=False,
        common_start=True,
        linear_head=True,
        backbone=fleet.recipe.traits.backbone,
        embedding=fleet.recipe.traits.embedding,
    ),
)
