"""ProtoNorm (Lee, Shin, Choi, 2025): class means spread out over the unit sphere, then scaled up by
the devices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

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
from protofleet.toolbox import alignment, fusions, losses, summaries
from protofleet.toolbox.access import as_given, find, need
from protofleet.values.prototypes import Parts, Prototypes
from protofleet.values.sums import Partial

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Hyper:
    """ProtoNorm's settings."""

    lam: float = setting(
        1.0, "weight of the pull toward the scaled prototype (on a mean over batch and d)", low=0
    )
    gamma: float = setting(
        100.0,
        "how far out on its axis a prototype is put (200 or 400 for 100 or more classes)",
        low=0,
    )
    scale: bool = setting(
        True, "put prototypes out by gamma (no: the paper's ablation without upscaling)"
    )
    align: bool = setting(
        True, "spread prototypes out (no: the paper's ablation without alignment)"
    )
    unit: bool = setting(
        True, "without alignment: directions of the means, rather than the means themselves"
    )
    stop: Literal["tangential", "paper"] = setting(
        "tangential", "when alignment ends: nothing moves, or as published"
    )
    steps: int = setting(500, "most steps of an alignment", low=0)
    absent_push: bool = setting(
        False, "classes nobody sent this time push the others away (they never move)"
    )


def factor(hyper: Hyper) -> float:
    """γ, or 1 without upscaling."""
    return hyper.gamma if hyper.scale else 1.0


def loss(net: Net, batch: Batch, constants: Given, hyper: Hyper) -> Tensor:
    """CE + λ·mse(z, γ·ĉ_g[y]) (ProtoNorm (4), (15))."""
    # (5) is a distance between *means* of a class; the authors' code takes the MSE of every sample,
    # as FedProto's does. γ multiplies here and not at the coordinator (section 4.2: upscaling is
    # the client's), so what travels are unit vectors that half precision holds well.
    _, z = net.features(batch.x)
    targets = factor(hyper) * constants["prototypes"]
    pull = losses.to_prototype(z, batch.y, targets, constants["have"])
    return losses.cross_entropy(net.head(z), batch.y) + hyper.lam * pull


def train(turn: Turn[Hyper], me: Learner, state: Parts) -> Sequence[Phase]:
    """One stretch, with the prototypes of the last state."""
    fleet, prototypes = turn.contract, find(state, "prototypes", Prototypes)
    return [Phase(loss, given=as_given(prototypes, fleet.n_classes, fleet.embedding))]


def summarise(turn: Turn[Any], me: Learner, state: Parts) -> Parts:
    """Class means; how many samples stand behind them stays private (section 6.3)."""
    # (2). Without counts (3) cannot be weighted, and (7) takes its place: that is the paper's price
    # for not telling how many samples of a class a device has.
    features = me.features()
    return {"prototypes": summaries.class_means(features.high, features.labels, counts=False)}


def fold(turn: Turn[Hyper], upload: Upload, weight: int) -> Partial:
    """Means into one sum a class."""
    means = need(upload.parts, "prototypes", Prototypes)
    return fusions.fold_means("prototypes", means, weight, by_count=False)


def fuse(turn: Turn[Hyper], total: Partial, before: GlobalState) -> GlobalState:
    """Their plain mean (7), on the unit sphere and spread out there (11)-(14)."""
    # The generator parts points that coincide and directs those of length zero. It is the fleet's,
    # so that such a point goes the same way in every round and devices are not pulled to and fro.
    hyper, rng = turn.hyper, turn.fleet_rng("alignment")
    fresh = fusions.means("prototypes", total, None).classes
    if not fresh.size:
        return before
    fused = fusions.means("prototypes", total, find(before.shared, "prototypes", Prototypes))
    # Only classes that were sent are aligned (the authors' code leaves the others out of the
    # round); an absent one keeps its direction, which may by now be near another's.
    moving, rows = np.isin(fused.classes, fresh), fused.vectors.astype(np.float64)
    if hyper.align:
        # Each round begins from the new means, not from where the last alignment ended: the
        # directions that devices agree on choose which of the many optima is taken.
        fixed = rows[~moving] if hyper.absent_push else None
        rows[moving], _ = alignment.align(
            rows[moving], rng, stop=hyper.stop, most=hyper.steps, fixed=fixed
        )
    elif hyper.unit:
        rows[moving] = alignment.units(rows[moving], rng)
    return GlobalState(shared={"prototypes": Prototypes(fused.classes, rows.astype(np.float32))})


def scorers(turn: Turn[Hyper], me: Learner, state: Parts) -> Mapping[str, Scorer]:
    """The nearest global prototype, by direction where prototypes are directions; the classifier
    beside it.
    """
    prototypes = find(state, "prototypes", Prototypes)
    if prototypes is None:
        return {"head": ByHead()}
    # (6) compares with local prototypes, the authors' code with the global unit ones. ‖z − ĉ‖² is
    # ‖z‖² + 1 − 2⟨z, ĉ⟩: among unit vectors distance and cosine give the same answer, whatever γ.
    if turn.hyper.align or turn.hyper.unit:
        return {"prototype": NearestPrototype(prototypes, "cosine"), "head": ByHead()}
    # Raw means differ in length, and there a distance has to know what the pull was toward.
    scaled = Prototypes(prototypes.classes, factor(turn.hyper) * prototypes.vectors)
    return {"prototype": NearestPrototype(scaled), "head": ByHead()}


def rooms(turn: Turn[Hyper], ceilings: Ceilings) -> Rooms:
    """A row a class."""
    fleet = turn.contract
    return {"prototypes": mean_room(fleet.n_classes, fleet.embedding, fleet.wire, ceilings)}


recipe = Recipe(
    name="protonorm",
    title="class means spread out over the unit sphere and scaled up; no counts leave a device",
    hyper=Hyper,
    train=train,
    summarise=summarise,
    fold=fold,
    fuse=fuse,
    scorers=scorers,
    rooms=rooms,
    traits=Traits(asynchronous=True),
)
