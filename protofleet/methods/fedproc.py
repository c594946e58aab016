"""FedProc (Mu et al., FGCS 2023): FedAvg that first contrasts features with the fleet's class means
and, round by round, hands over to the classifier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from protofleet.exchange.state import GlobalState, Upload
from protofleet.masking.rooms import Ceilings, Rooms, mean_room
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
    """FedProc's settings."""

    rounds: int = setting(
        100, "rounds in which the loss goes from the contrast to the classifier's", low=1
    )
    tau: float = setting(1.0, "temperature of the contrast (the official code has none)", low=0.001)
    unit_head: bool = setting(
        True, "the classifier reads the embedding scaled to length one, as in the official code"
    )


def loss(net: Net, batch: Batch, constants: Given, hyper: Hyper) -> Tensor:
    """α·CE + (1 − α)·contrast with the class means, on unit vectors."""
    from torch.nn import functional

    _, z = net.features(batch.x)
    # float(): in bf16 a cosine has barely three digits, and a small τ magnifies what is wrong with
    # it.
    unit = functional.normalize(z.float(), dim=1)
    classified = losses.cross_entropy(net.head(unit if hyper.unit_head else z), batch.y)
    # −log of the own class's share among the fleet's class means: MP-FedCL's contrast with a pool
    # of one row. Classes without a prototype are left out, where the official code compares with a
    # zero vector (a logit of 0, in the middle of the others' [−1, 1]) until there is one.
    one_row = constants["have"].new_ones(1)
    contrast = losses.to_pool(
        unit, batch.y, constants["prototypes"].unsqueeze(0), one_row, constants["have"], hyper.tau
    )
    return constants["alpha"] * classified + (1 - constants["alpha"]) * contrast


def train(turn: Turn[Hyper], me: Learner, state: Parts) -> Sequence[Phase]:
    """One stretch; α is the share of the rounds that are over, and 1 while there are no
    prototypes.
    """
    fleet, prototypes = turn.contract, find(state, "prototypes", Prototypes)
    # The official code's α is round / 100 with rounds from 0. It goes in as an array: as a plain
    # number it would be part of the compiled step, which would then be made anew in every round.
    alpha = 1.0 if prototypes is None else min(1.0, (turn.round - 1) / turn.hyper.rounds)
    # A mean of unit vectors is shorter than one; the contrast compares directions.
    unit = (
        None
        if prototypes is None
        else Prototypes(prototypes.classes, summaries.units(prototypes.vectors))
    )
    constants = as_given(unit, fleet.n_classes, fleet.embedding)
    return [Phase(loss, given=constants | {"alpha": np.array(alpha, np.float32)})]


def summarise(turn: Turn[Hyper], me: Learner, state: Parts) -> Parts:
    """All weights with n, and the means and counts of unit embeddings from a clean pass after
    training.
    """
    # Unit first, mean second: a sample with a long embedding counts no more than any other.
    features = me.features()
    means = summaries.class_means(summaries.units(features.high), features.labels)
    return {**fedavg.summarise(turn, me, state), "prototypes": means}


def fold(turn: Turn[Hyper], upload: Upload, weight: int) -> Partial:
    """Weights by n, means by their counts."""
    means = need(upload.parts, "prototypes", Prototypes)
    return {
        **fedavg.fold(turn, upload, weight),
        **fusions.fold_means("prototypes", means, weight, by_count=True),
    }


def fuse(turn: Turn[Hyper], total: Partial, before: GlobalState) -> GlobalState:
    """The means of both; a class that nobody sent this time keeps its prototype."""
    if not total:
        return before
    fused = fusions.means("prototypes", total, find(before.shared, "prototypes", Prototypes))
    return GlobalState(shared={**fedavg.fuse(turn, total, before).shared, "prototypes": fused})


def scorers(turn: Turn[Hyper], me: Learner, state: Parts) -> Mapping[str, Scorer]:
    """The classifier; the nearest prototype by cosine beside it."""
    prototypes = find(state, "prototypes", Prototypes)
    near: dict[str, Scorer] = (
        {} if prototypes is None else {"prototype": NearestPrototype(prototypes, "cosine")}
    )
    return near | {"head": ByHead(of_unit=turn.hyper.unit_head)}


def rooms(turn: Turn[Hyper], ceilings: Ceilings) -> Rooms:
    """FedAvg's, and a row a class."""
    fleet = turn.contract
    means = mean_room(fleet.n_classes, fleet.embedding, fleet.wire, ceilings, by_count=True)
    return {**fedavg.rooms(turn, ceilings), "prototypes": means}


recipe: Recipe[Hyper] = Recipe(
    name="fedproc",
    title="average weights; contrast with global class means first, train the classifier later",
    hyper=Hyper,
    train=train,
    summarise=summarise,
    fold=fold,
    fuse=fuse,
    scorers=scorers,
    rooms=rooms,
    receive=fedavg.receive,
    traits=fedavg.recipe.traits,
)
