"""GFPL (Lu et al.): features are aligned with fixed vectors; classifiers retrain on what the
fleet's mixtures draw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from protofleet.errors import FusionError
from protofleet.exchange.state import GlobalState, Upload
from protofleet.recipe import (
    Batch,
    ByHead,
    Given,
    Learner,
    LikeliestMixture,
    Linear,
    NearestPrototype,
    Net,
    Phase,
    Recipe,
    Scorer,
    Traits,
    Turn,
)
from protofleet.settings.fields import setting
from protofleet.toolbox import etf, losses, mixtures, schedules
from protofleet.toolbox.access import find, need
from protofleet.values.prototypes import Floats, Mixtures, Parts, Prototypes
from protofleet.values.sums import Bag, Partial, bagged

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Hyper:
    """GFPL's settings."""

    lam: float = setting(
        2.0, "weight of the dot regression (0: the paper's w/o DCS, to be read by its head)", low=0
    )
    pseudo: int = setting(
        16, "pseudo-features a class (0: the paper's w/o PFG, nothing is exchanged)", low=0
    )
    passes: int = setting(1, "passes over the pseudo-features at each exchange", low=1)
    start: int = setting(10, "the first round of exchange", low=1)
    interval: int = setting(10, "rounds from one exchange to the next", low=1)
    components: int = setting(
        4,
        "Gaussians a class on a device, fewer where it has fewer than two samples each",
        low=1,
        high=64,
    )
    floor: float = setting(1e-3, "added to every variance", low=1e-8)
    threshold: float = setting(
        1.0, "Gaussians of a class nearer than this (Bhattacharyya) are fused", low=0
    )
    most: int = setting(
        64, "Gaussians a class in the fleet: beyond it the threshold doubles", low=1, high=64
    )
    dim: int = setting(
        0,
        "size of the projection, at least the number of classes; 0: the embedding's if it is",
        low=0,
    )


def talks(turn: Turn[Hyper]) -> bool:
    """From the first exchange on, every so many rounds; without pseudo-features there is nothing to
    exchange for.
    """
    hyper = turn.hyper
    return hyper.pseudo > 0 and schedules.from_then_every(hyper.start, hyper.interval, turn.round)


def heads(turn: Turn[Hyper]) -> Mapping[str, Linear]:
    """The projection of formula 11, beside the classifier."""
    return {"project": Linear(_frame(turn).shape[1])}


def loss(net: Net, batch: Batch, given: Given, hyper: Hyper) -> Tensor:
    """CE(g(f)) + λ·½(hᵀz_c − 1)², h the normalised projection of f (GFPL (13))."""
    _, f = net.features(batch.x)
    return retrain(net, Batch(f, batch.y), given, hyper)


def retrain(net: Net, batch: Batch, given: Given, hyper: Hyper) -> Tensor:
    """The same of features as they come (GFPL (14))."""
    aligned = losses.dot_regression(net.extra("project", batch.x), batch.y, given["frame"])
    return losses.cross_entropy(net.head(batch.x), batch.y) + hyper.lam * aligned


def train(turn: Turn[Hyper], me: Learner, got: Parts) -> Sequence[Phase]:
    """One stretch on the device's own samples."""
    return [Phase(loss, given={"frame": _frame(turn)})]


def summarise(turn: Turn[Hyper], me: Learner, got: Parts) -> Parts:
    """A mixture a class, in rounds of exchange."""
    if not talks(turn):
        return {}
    seen, hyper = me.features(), turn.hyper
    fitted = mixtures.class_mixtures(
        seen.high, seen.labels, hyper.components, hyper.floor, turn.seed("EM")
    )
    return {"mixtures": fitted}


def fold(turn: Turn[Hyper], upload: Upload, weight: int) -> Partial:
    """Mixtures are kept whole: distances are between components of different devices."""
    part, fleet = need(upload.parts, "mixtures", Mixtures), turn.contract
    if part.classes.size and (part.dim != fleet.embedding or part.classes[-1] >= fleet.n_classes):
        raise FusionError(
            f"mixtures of class ≤ {part.classes[-1]}, d {part.dim}: not of this fleet"
        )
    return {"mixtures": Bag.of(upload.agent, weight, {"mixtures": part})}


def fuse(turn: Turn[Hyper], total: Partial, before: GlobalState) -> GlobalState:
    """Algorithm 1, class by class."""
    sent = [
        (weight, need(parts, "mixtures", Mixtures))
        for _, weight, parts in bagged(total, "mixtures")
    ]
    fused = mixtures.fuse(
        sent, find(before.shared, "mixtures", Mixtures), turn.hyper.threshold, turn.hyper.most
    )
    return before if fused is None else GlobalState(shared={"mixtures": fused})


def adapt(turn: Turn[Hyper], me: Learner, got: Parts) -> Sequence[Phase]:
    """Projection and classifier learn from pseudo-features of every class the fleet knows; the
    extractor is frozen.
    """
    known, hyper = find(got, "mixtures", Mixtures), turn.hyper
    if known is None or not hyper.pseudo:
        return []
    drawn = mixtures.sample(known, hyper.pseudo, turn.rng("pseudo-features"))
    given = {"frame": _frame(turn)}
    return [Phase(retrain, given=given, train=("project", "head"), epochs=hyper.passes, data=drawn)]


def scorers(turn: Turn[Any], me: Learner, got: Parts) -> Mapping[str, Scorer]:
    """The projection against the fixed vectors; the classifier; the fleet's likeliest mixture."""
    frame, known = _frame(turn), find(got, "mixtures", Mixtures)
    fixed = NearestPrototype(Prototypes(np.arange(len(frame)), frame), "cosine", through="project")
    found: dict[str, Scorer] = {"prototype": fixed, "head": ByHead()}
    return found if known is None else found | {"mixture": LikeliestMixture(known)}


def _frame(turn: Turn[Hyper]) -> Floats:
    """The fixed vectors: every device derives the same from the fleet's seed, so they cost no
    bytes.
    """
    classes = turn.contract.n_classes
    return etf.simplex(
        classes, turn.hyper.dim or max(turn.contract.embedding, classes), turn.fleet_rng("ETF")
    )


recipe = Recipe(
    name="gfpl",
    title="exchange Gaussian mixtures; align with fixed vectors and retrain on pseudo-features",
    hyper=Hyper,
    train=train,
    summarise=summarise,
    fold=fold,
    fuse=fuse,
    scorers=scorers,
    adapt=adapt,
    talks=talks,
    heads=heads,
    traits=Traits(own_width=("mixtures",), mixed_backbones=False, common_start=True),
)
