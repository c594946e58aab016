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


def train(turn: Turn[Hyper], me: Learner, state: Parts) -> Sequence[Phase]:
    """CE + λ·mse(z, p_g[y]), as FedProto."""
    # The paper's local loss is FedProto's; only where the prototypes come from differs. A remark in
    # the official code names λ = 10; the default is FedProto's 1, so that the two compare.
    fleet = turn.contract
    constants = as_given(find(state, "prototypes", Prototypes), fleet.n_classes, fleet.embedding)
    return [Phase(fedproto.loss, given=constants)]


def fold(turn: Turn[Hyper], upload: Upload, weight: int) -> Partial:
    """Local prototypes are kept whole: each is a sample to train on."""
    means = need(upload.parts, "prototypes", Prototypes)
    return {"prototypes": Bag.of(upload.agent, weight, {"prototypes": means})}


def fuse(turn: Turn[Hyper], total: Partial, before: GlobalState) -> GlobalState:
    """Prototypes after contrastive training with an adaptive margin; the network that makes them
    stays here.
    """
    hyper = turn.hyper
    uploads = [need(parts, "prototypes", Prototypes) for _, _, parts in bagged(total, "prototypes")]
    uploads = [means for means in uploads if means.classes.size]
    if not uploads:
        return before
    # Every local prototype is one sample, in the order of the devices' names, whatever its count:
    # the official code trains on a plain list of them. The seed of the round shuffles it.
    vectors = np.concatenate([means.vectors for means in uploads])
    labels = np.concatenate([means.classes for means in uploads])
    earlier, dim = find(before.server, "trainable", Tensors), uploads[0].dim
    # The fleet's generator, not the round's: a coordinator that lost its state begins as it began.
    fresh = trainable.initial(
        turn.contract.n_classes, dim, hyper.hidden or dim, turn.fleet_rng("trainable")
    )
    # δ is found anew in every round from what came in it, before any training (the paper's adaptive
    # margin): it grows as the extractors pull the classes apart, up to τ.
    delta = trainable.margin(vectors, labels, hyper.threshold)
    training = trainable.PrototypeTraining(
        delta, hyper.server_epochs, hyper.server_batch, hyper.server_lr
    )
    start = fresh if earlier is None else earlier.arrays
    rng = turn.rng("server")
    weights = trainable.trained(start, vectors, labels, rng, training)  # type: ignore[arg-type]
    # The network makes a prototype of every class of the fleet, also of those that nobody ever had;
    # such a one says only what the others were pushed off from, and devices are not pulled to it.
    # The official code shares all.
    before_this = find(before.shared, "prototypes", Prototypes)
    classes = np.union1d(labels, [] if before_this is None else before_this.classes)
    classes = classes.astype(np.int64)
    prototypes = Prototypes(classes, trainable.prototypes(weights)[classes])
    return GlobalState(shared={"prototypes": prototypes}, server={"trainable": Tensors(weights)})


recipe: Recipe[Hyper] = Recipe(
    name="fedtgp",
    title="FedProto with global prototypes that the coordinator trains, "
    "contrastively, with an adaptive margin",
    hyper=Hyper,
    train=train,
    summarise=protonorm.summarise,
    fold=fold,
    fuse=fuse,
    scorers=fedproto.scorers,
)
