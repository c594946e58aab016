"""GFPL (Lu et al.): features are aligned with fixed vectors; classifiers retrain on what the
fleet's mixtures draw.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from protofleet.errors import FusionError
from protofleet.exchange.state import GlobalState, Upload
from protofleet.recipe import (
    Batch,
    ByHead,
    Drawn,
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
    retrain: Literal["exchange", "batch"] = setting(
        "exchange",
        "when projection and classifier learn from pseudo-features: once, when mixtures come, or "
        "after every batch of a round of exchange, as algorithm 2 has it",
    )
    passes: int = setting(1, "passes over the pseudo-features at each exchange, or batch", low=1)
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
    # Why there is one: after a ReLU no embedding can point at a fixed vector, whose entries have
    # both signs (section 4.1). A linear layer has both signs.
    return {"project": Linear(_frame(turn).shape[1])}


def loss(net: Net, batch: Batch, constants: Given, hyper: Hyper) -> Tensor:
    """CE(g(f)) + λ·½(hᵀz_c − 1)², h the normalised projection of f (GFPL (13))."""
    _, f = net.features(batch.x)
    return retrain(net, Batch(f, batch.y), constants, hyper)


def retrain(net: Net, batch: Batch, constants: Given, hyper: Hyper) -> Tensor:
    """The same of features as they come (GFPL (14))."""
    # (14) is (13) with a pseudo-feature in the place of f(x): one function for both, so that the
    # classifier cannot learn one thing from samples and another from what stands for them.
    aligned = losses.dot_regression(net.extra("project", batch.x), batch.y, constants["frame"])
    return losses.cross_entropy(net.head(batch.x), batch.y) + hyper.lam * aligned


def train(turn: Turn[Hyper], me: Learner, state: Parts) -> Sequence[Phase]:
    """One stretch on the device's own samples; as algorithm 2 has it with a retraining after every
    batch of a round of exchange.
    """
    constants, fleet_mixtures = {"frame": _frame(turn)}, find(state, "mixtures", Mixtures)
    # Lines 14-18, with the mixtures of the exchange before. In the first round of exchange there
    # are none: what `exchange` does on arrival comes S_T rounds later here.
    if turn.hyper.retrain == "exchange" or not talks(turn) or fleet_mixtures is None:
        return [Phase(loss, given=constants)]
    draw = partial(mixtures.sample, fleet_mixtures, turn.hyper.pseudo)  # anew for every batch
    return [Phase(loss, given=constants, between=_retraining(turn, draw))]


def summarise(turn: Turn[Hyper], me: Learner, state: Parts) -> Parts:
    """A mixture a class, in rounds of exchange."""
    if not talks(turn):
        return {}
    # Algorithm 2 fits after every epoch and sends once a round: only the last fit is ever seen.
    features, hyper = me.features(), turn.hyper
    fitted = mixtures.class_mixtures(
        features.high, features.labels, hyper.components, hyper.floor, turn.seed("EM")
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
    uploads = [
        (weight, need(parts, "mixtures", Mixtures))
        for _, weight, parts in bagged(total, "mixtures")
    ]
    earlier = find(before.shared, "mixtures", Mixtures)
    fused = mixtures.fuse(uploads, earlier, turn.hyper.threshold, turn.hyper.most)
    return before if fused is None else GlobalState(shared={"mixtures": fused})


def adapt(turn: Turn[Hyper], me: Learner, state: Parts) -> Sequence[Phase]:
    """Projection and classifier learn from pseudo-features of every class the fleet knows; the
    extractor is frozen.
    """
    fleet_mixtures, hyper = find(state, "mixtures", Mixtures), turn.hyper
    if fleet_mixtures is None or not hyper.pseudo or hyper.retrain == "batch":
        return []
    # Algorithm 2 as printed retrains inside the loop over batches (lines 14-18), so as often as
    # there are batches; the text says once an exchange. It is once here, on arrival: mixtures that
    # came belong to the weights that the devices had when they sent, and those move on with
    # training. r of every class, however many samples it has: this is what balances the classes.
    drawn = mixtures.sample(fleet_mixtures, hyper.pseudo, turn.rng("pseudo-features"))
    return [_retraining(turn, drawn)]


def _retraining(turn: Turn[Hyper], data: Drawn | Callable[[np.random.Generator], Drawn]) -> Phase:
    constants, modules = {"frame": _frame(turn)}, ("project", "head")
    return Phase(retrain, given=constants, train=modules, epochs=turn.hyper.passes, data=data)


def scorers(turn: Turn[Any], me: Learner, state: Parts) -> Mapping[str, Scorer]:
    """The projection against the fixed vectors; the classifier; the fleet's likeliest mixture."""
    frame, fleet_mixtures = _frame(turn), find(state, "mixtures", Mixtures)
    # The paper does not say which of its two classifiers its tables read: both are reported.
    fixed = NearestPrototype(Prototypes(np.arange(len(frame)), frame), "cosine", through="project")
    scorers: dict[str, Scorer] = {"prototype": fixed, "head": ByHead()}
    if fleet_mixtures is None:
        return scorers
    return scorers | {"mixture": LikeliestMixture(fleet_mixtures)}


def _frame(turn: Turn[Hyper]) -> Floats:
    """The fixed vectors: every device derives the same from the fleet's seed, so they cost no
    bytes.
    """
    # The paper wants d > K, yet C vectors evenly apart need C − 1 dimensions and (9) needs C of
    # them for its orthonormal columns: where the embedding is smaller, the projection widens to C.
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
