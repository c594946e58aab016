"""fleet: a frozen extractor that all derive, class means and one covariance of them all, and a
prior of one's own.

Nothing is trained: what a device's labelled samples say is their mean and spread under an extractor
that is the same everywhere, so these add up over devices exactly as if the samples lay in one
place, and one exchange says it all. From the papers: means (FedMPS), second moments that add up
(GFPL's matched moments), a geometry in which classes are evenly apart (ProtoNorm's aim, here by
whitening), and a classifier that fits each device's own classes (FedIC's).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from protofleet.errors import FusionError
from protofleet.exchange.state import GlobalState, Upload
from protofleet.recipe import ByHead, Learner, Phase, Recipe, Scorer, Traits, Turn
from protofleet.settings.fields import setting
from protofleet.toolbox import discriminant, fusions, schedules, summaries
from protofleet.toolbox.access import find, need
from protofleet.values.prototypes import Head, Parts, Prototypes, Tensors
from protofleet.values.sums import Bag, Partial, Sum, bagged


@dataclass(frozen=True)
class Hyper:
    """fleet's settings."""

    interval: int = setting(
        10, "rounds from one exchange to the next; the first round is one", low=1
    )
    ridge: float = setting(
        0.01, "added to the covariance, as a share of its mean variance", low=1e-6
    )
    recall: float = setting(
        0.9, "how much what was known counts beside what comes, for devices not heard now", low=0
    )
    temper: float = setting(
        2.0, "divides log-likelihoods, which are too sure, before the prior", low=1e-3
    )
    smooth: float = setting(
        2.0, "samples that a device's prior adds to each class; large: no prior", low=1e-6
    )


def talks(turn: Turn[Hyper]) -> bool:
    """The first round, and every so many from there."""
    return schedules.from_then_every(1, turn.hyper.interval, turn.round)


def train(turn: Turn[Hyper], me: Learner, state: Parts) -> Sequence[Phase]:
    """Nothing: the extractor stays, and the classifier comes from the fleet."""
    # What adds up exactly must have been seen through the same extractor: one step of training on
    # one device, and its means would be those of another space.
    return []


def summarise(turn: Turn[Hyper], me: Learner, state: Parts) -> Parts:
    """Class means and counts; the spread too, when it is not what was sent before."""
    if not talks(turn):
        return {}
    features = me.features()
    means = summaries.class_means(features.high, features.labels)
    # The spread is 50 times the rest. The extractor does not move, so equal means and counts are
    # the same samples, whose spread the coordinator has in its running mean. What it cannot know is
    # whether that upload came in time: then the spread is missed until these samples change.
    earlier = find(me.memory.get("told", {}), "prototypes", Prototypes)
    me.memory["told"] = {"prototypes": means}
    if earlier == means:
        return {"prototypes": means}
    spread = discriminant.spread_within(features.high, features.labels, means)
    return {"prototypes": means, "spread": Tensors({"spread": spread})}


def fold(turn: Turn[Hyper], upload: Upload, weight: int) -> Partial:
    """Means and spreads by their counts; the means whole, too, for the spread between devices."""
    means = need(upload.parts, "prototypes", Prototypes)
    total = fusions.fold_means("prototypes", means, weight, by_count=True)
    if not means.classes.size or not np.all(means.counts) or means.dim != turn.contract.embedding:
        raise FusionError(
            "prototypes: some class, samples of each, and the fleet's embedding size are due"
        )
    # Sums alone would do for the means of the fleet; how far a device's mean lies from the fleet's
    # is only known once all are in, and needs each device's means apart.
    total = {**total, "devices": Bag.of(upload.agent, weight, {"prototypes": means})}
    spread = find(upload.parts, "spread", Tensors)
    if spread is None:
        return total
    entries = spread.arrays.get("spread")
    if entries is None or entries.shape != (means.dim * (means.dim + 1) // 2,):
        raise FusionError(f"spread: the upper triangle of {means.dim} × {means.dim} is due")
    return {
        **total,
        **fusions.fold_tensors("spread", spread, weight * int(np.sum(np.asarray(means.counts)))),
    }


def fuse(turn: Turn[Hyper], total: Partial, before: GlobalState) -> GlobalState:
    """Means and spread of all, together with what was known; and the discriminants that they
    make.
    """
    devices = [need(parts, "prototypes", Prototypes) for _, _, parts in bagged(total, "devices")]
    if not devices:
        return before
    earlier, recall = find(before.server, "known", Tensors), turn.hyper.recall
    n_classes, dim = turn.contract.n_classes, turn.contract.embedding
    means, samples = np.zeros((n_classes, dim)), np.zeros(n_classes)
    spread, weight = np.zeros((dim, dim)), 0.0
    # What was known counts `recall` as much as it did: with partial participation the silent
    # devices stay in the mean, and what they said fades by 0.9 an exchange as newer word comes in.
    if earlier is not None:
        means[:], samples[:] = earlier["means"], recall * earlier["samples"]
        spread = discriminant.symmetric(earlier["spread"], dim)
        weight = recall * float(earlier["weight"])
    now = total["prototypes"]
    assert isinstance(now, Sum)
    # A running weighted mean, written as a step toward the newcomer: what agrees already does not
    # move at all, where (a + b) / n would round every time. `fold` made sure that no weight is 0.
    share = (now.weights / (now.weights + samples[now.keys]))[:, None]
    means[now.keys] += share * (now.mean() - means[now.keys])
    samples[now.keys] += now.weights
    within = total.get("spread/spread")
    if isinstance(within, Sum):
        # Law of total covariance, about the means of *this* exchange: what the devices call spread
        # is about their own means, and misses how these differ from each other within a class.
        centres = Prototypes(now.keys, now.mean().astype(np.float32))
        fresh = discriminant.symmetric(within.mean()[0], dim) + discriminant.spread_between(
            devices, centres
        )
        n = float(within.weights[0])
        spread, weight = spread + (fresh - spread) * n / (weight + n), weight + n
    have = np.flatnonzero(samples)
    centres = Prototypes(have, means[have].astype(np.float32))
    # Means of all and not rows of a head: rows cannot be added to, so they are made anew from
    # these.
    knowledge = {
        "means": means.astype(np.float32),
        "samples": samples.astype(np.float32),
        "spread": discriminant.triangle(spread),
        "weight": np.array(weight, np.float32),
    }
    return GlobalState(
        {"head": discriminant.rows(centres, spread, turn.hyper.ridge)},
        server={"known": Tensors(knowledge)},
    )


def scorers(turn: Turn[Hyper], me: Learner, state: Parts) -> Mapping[str, Scorer]:
    """The class whose mean is nearest in the fleet's covariance, with the device's own counts as a
    prior.
    """
    head, hyper = find(state, "head", Head), turn.hyper
    if head is None:
        return {"head": ByHead()}
    counts = np.zeros(turn.contract.n_classes)
    mine = find(me.memory.get("told", {}), "prototypes", Prototypes)
    # A newcomer has told nobody anything yet; its prior is from its own samples all the same.
    if mine is None and me.samples:
        features = me.features()
        mine = summaries.class_means(features.high, features.labels)
    if mine is not None and mine.counts is not None:
        counts[mine.classes] = mine.counts
    # The prior never leaves the device: it is what makes one common classifier fit this device's
    # classes, and it would tell which those are.
    return {
        "prototype": ByHead(rows=discriminant.with_prior(head, counts, hyper.temper, hyper.smooth))
    }


recipe = Recipe(
    name="fleet",
    title="add up class means and a covariance under an extractor that never learns; "
    "classify by discriminants",
    hyper=Hyper,
    train=train,
    summarise=summarise,
    fold=fold,
    fuse=fuse,
    scorers=scorers,
    talks=talks,
    # Rows of the head are differences of large numbers, whose last digits decide. The covariance is
    # the bulk of an upload, and half precision's 0.05 % is little beside the ridge's 1 %.
    precision={"spread": "half", "head": "float32"},
    traits=Traits(
        mixed_backbones=False, common_start=True, frozen=True, backbone="fixed", embedding=504
    ),
)
