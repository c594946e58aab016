"""FedTGP (Zhang, Liu, Hua, Cao, AAAI 2024): FedProto whose global prototypes are trained, to be
near and yet apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from protofleet.exchange.state import GlobalState, Upload
from protofleet.methods import fedproto, protonorm
from protofleet.recipe import Learner, Phase, Recipe, Turn
from protofleet.settings.fields import setting
from protofleet.toolbox import trainable
from protofleet.toolbox.access import as_given, find, need
from protofleet.values.prototypes import Parts, Prototypes, Tensors
from protofleet.values.sums import Bag, Partial, bagged


@dataclass(frozen=True)
class Hyper:
    """FedTGP's settings."""

    lam: float = setting(
        1.0, "weight of the pull toward the global prototype (on a mean over batch and d)", low=0
    )
    threshold: float = setting(100.0, "τ, the largest margin between prototypes", low=0)
    server_epochs: int = setting(
        100, "passes of the coordinator over all local prototypes in a round", low=0
    )
    server_lr: float = setting(0.01, "the coordinator's learning rate", low=0)
    server_batch: int = setting(10, "local prototypes in a step of the coordinator", low=1)
    hidden: int = setting(
        0, "width of the network that makes prototypes; 0: as wide as the embedding", low=0
    )


def train(turn: Turn[Hyper], me: Learner, got: Parts) -> Sequence[Phase]:
    """CE + λ·mse(z, p_g[y]), as FedProto."""
    fleet = turn.contract
    given = as_given(find(got, "prototypes", Prototypes), fleet.n_classes, fleet.embedding)
    return [Phase(fedproto.loss, given=given)]


def fold(turn: Turn[Hyper], upload: Upload, weight: int) -> Partial:
    """Local prototypes are kept whole: each is a sample to train on."""
    means = need(upload.parts, "prototypes", Prototypes)
    return {"prototypes": Bag.of(upload.agent, weight, {"prototypes": means})}


def fuse(turn: Turn[Hyper], total: Partial, before: GlobalState) -> GlobalState:
    """Prototypes after contrastive training with an adaptive margin; the network that makes them
    stays here.
    """
    hyper = turn.hyper
    sent = [need(parts, "prototypes", Prototypes) for _, _, parts in bagged(total, "prototypes")]
    sent = [means for means in sent if means.classes.size]
    if not sent:
        return before
    vectors, labels = (
        np.concatenate([m.vectors for m in sent]),
        np.concatenate([m.classes for m in sent]),
    )
    kept, dim = find(before.server, "trainable", Tensors), sent[0].dim
    fresh = trainable.initial(
        turn.contract.n_classes, dim, hyper.hidden or dim, turn.fleet_rng("trainable")
    )
    weights = trainable.trained(
        fresh if kept is None else kept.arrays,  # type: ignore[arg-type]
        vectors,
        labels,
        trainable.margin(vectors, labels, hyper.threshold),
        turn.rng("server"),
        epochs=hyper.server_epochs,
        batch_size=hyper.server_batch,
        lr=hyper.server_lr,
    )
    known = find(before.shared, "prototypes", Prototypes)
    classes = np.union1d(labels, [] if known is None else known.classes).astype(np.int64)
    made = Prototypes(classes, trainable.prototypes(weights)[classes])
    return GlobalState(shared={"prototypes": made}, server={"trainable": Tensors(weights)})


recipe: Recipe[Hyper] = Recipe(
    name="fedtgp",
    title="FedProto with global prototypes that the coordinator trains, contrastively, with an adaptive margin",
    hyper=Hyper,
    train=train,
    summarise=protonorm.summarise,
    fold=fold,
    fuse=fuse,
    scorers=fedproto.scorers,
)
