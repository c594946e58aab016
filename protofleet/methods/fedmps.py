"""FedMPS (Yang et al., TNNLS 2025): class means of two feature levels, and soft labels that the
coordinator learns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from protofleet.errors import SettingError
from protofleet.exchange.state import GlobalState, Upload
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
from protofleet.toolbox import fusions, losses, softlabels, summaries
from protofleet.toolbox.access import as_given, find, need
from protofleet.values.prototypes import (
    Floats,
    Parts,
    Prototypes,
    SoftLabels,
    Tensors,
    count_floats,
)
from protofleet.values.sums import Bag, Partial, bagged

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Hyper:
    """FedMPS's settings; the defaults are the paper's for CIFAR-10 (its section IV-B)."""

    lam: float = setting(1.0, "λ, weight of both contrastive terms", low=0)
    alpha: float = setting(
        0.2, "α, weight of the low level in them; 1 on the paper's other data sets", low=0
    )
    beta: float = setting(1.0, "β, weight of the high level in them", low=0)
    mu: float = setting(
        5.0,
        "μ, weight of the soft labels; "
        "Flowers, Fashion-MNIST 1, DeFungi, RealWaste 0.01, Femnist 10",
        low=0,
    )
    tau1: float = setting(0.5, "τ1, temperature of the contrastive terms; RealWaste 1", low=1e-3)
    tau2: float = setting(5.0, "τ2, temperature of the soft labels", low=1e-3)
    scaled: bool = setting(
        False, "multiply the contrastive terms by τ1/0.07, as SupCon's code does"
    )
    unit_prototypes: bool = setting(False, "scale the global prototypes to length one again")
    server_epochs: int = setting(6, "epochs of the coordinator's classifier a round", low=0)
    server_batch: int = setting(4, "batch size of the coordinator's classifier", low=1)
    server_optimizer: softlabels.Optimizer = setting(
        "sgd", "optimiser of the coordinator's classifier"
    )
    server_lr: float | None = setting(
        None, "its learning rate; none: 0.01 for sgd, 0.001 for adam", low=0
    )
    server_keeps: bool = setting(True, "the coordinator's classifier goes on from round to round")
    average: softlabels.Average = setting(
        "softmax", "what a class's soft label averages over devices (formula 8)"
    )


def loss(net: Net, batch: Batch, constants: Given, hyper: Hyper) -> Tensor:
    """CE + λ (α · contrast of û + β · contrast of ẑ) + μ · KL to the soft labels (FedMPS (2),
    (4)).
    """
    from torch.nn.functional import normalize

    # Section IV-A3: both levels have length one, and the output layer reads the unit embedding. In
    # evaluation the same is said by `of_unit`; a scorer without it would see another function.
    u, z = (normalize(level.float()) for level in net.features(batch.x))
    logits = net.head(z)
    total = losses.cross_entropy(logits, batch.y)
    # SupCon's code multiplies by τ/base_τ, base_τ = 0.07, and a public copy of the authors' code
    # kept it; (3) as printed does not. At τ1 = 0.5 it is a λ of 7.1 in all but name.
    scale = hyper.lam * (hyper.tau1 / 0.07 if hyper.scaled else 1.0)
    for level, rows, weight in (("low", u, hyper.alpha), ("high", z, hyper.beta)):
        if scale * weight:
            have = constants[f"{level}_have"]
            contrast = losses.supcon(rows, batch.y, constants[level], have, hyper.tau1)
            # Algorithm 1 begins with empty prototypes, so its first round is CE alone, though the
            # batch has positives of its own. `amax` is 0 before the first prototypes and 1 from
            # then on: a factor, since a branch on the data could not be traced into a compiled
            # step.
            total = total + scale * weight * have.amax() * contrast
    if hyper.mu:
        total = total + hyper.mu * losses.kl_to_soft_labels(
            logits, batch.y, constants["soft"], constants["soft_have"], hyper.tau2
        )
    return total


def train(turn: Turn[Hyper], me: Learner, state: Parts) -> Sequence[Phase]:
    """One stretch, with prototypes and soft labels of the last state."""
    if turn.contract.unit_logits and turn.hyper.mu:
        raise SettingError(
            "fedmps: the coordinator's classifier knows no logits of length one",
            "leave unit_logits, or the soft labels (mu=0)",
        )
    n = turn.contract.n_classes
    constants: dict[str, NDArray[Any]] = {}
    for level in _levels(turn.hyper):
        prototypes = find(state, level, Prototypes)
        # The contract knows the embedding's size and not the low level's, so where there is no
        # prototype yet the device's own features say how wide the empty table has to be.
        dim = prototypes.dim if prototypes is not None else _features(me, level).shape[1]
        rows = as_given(prototypes, n, dim)
        constants |= {level: rows["prototypes"], f"{level}_have": rows["have"]}
    constants["soft"], constants["soft_have"] = softlabels.table(find(state, "soft", SoftLabels), n)
    return [Phase(loss, given=constants)]


def summarise(turn: Turn[Hyper], me: Learner, state: Parts) -> Parts:
    """Class means of û and ẑ, from a clean pass after training."""
    # Means of unit vectors, so a little shorter than one: the shorter, the less a class agrees with
    # itself. They are sent as they are. The authors' code averages the batches of the training
    # pass, augmented and while weights move; a clean pass does not depend on the order of the
    # batches.
    labels = me.features(low=True).labels
    rows = {level: summaries.units(_features(me, level)) for level in _levels(turn.hyper)}
    return {
        level: summaries.class_means(unit, labels, counts=False) for level, unit in rows.items()
    }


def fold(turn: Turn[Hyper], upload: Upload, weight: int) -> Partial:
    """Means into sums a class; the high ones kept beside, for the classifier."""
    levels = {level: need(upload.parts, level, Prototypes) for level in _levels(turn.hyper)}
    total: dict[str, Any] = {"locals": Bag.of(upload.agent, weight, {"high": levels["high"]})}
    for level, means in levels.items():
        total |= fusions.fold_means(level, means, weight, by_count=False)
    return total


def fuse(turn: Turn[Hyper], total: Partial, before: GlobalState) -> GlobalState:
    """Plain means, and what a classifier of all local prototypes says of each class (FedMPS (7),
    (8)).
    """
    hyper, fleet = turn.hyper, turn.contract
    local_means = [need(parts, "high", Prototypes) for _, _, parts in bagged(total, "locals")]
    if not local_means:
        return before
    shared: dict[str, Any] = {}
    for level in _levels(hyper):
        fused = fusions.means(level, total, find(before.shared, level, Prototypes))
        shared[level] = (
            Prototypes(fused.classes, summaries.units(fused.vectors))
            if hyper.unit_prototypes
            else fused
        )
    if not hyper.mu:
        return GlobalState(shared)
    # (7): every local prototype of this round is one labelled sample, in the order of the devices'
    # names. With some sixty of them 6 epochs in batches of 4 are about ninety steps: f learns over
    # rounds rather than within one, which is why it is kept (the paper does not say; the code
    # does).
    x = np.concatenate([means.vectors for means in local_means])
    y = np.concatenate([means.classes for means in local_means])
    rng, earlier = turn.rng("soft labels"), find(before.server, "classifier", Tensors)
    sizes = (fleet.embedding, *fleet.head_hidden, fleet.n_classes)
    # One generator draws the initial weights, if any, and then the order of the samples.
    relu = fleet.head_relu
    model = (
        softlabels.Model.of(earlier, relu=relu)
        if earlier and hyper.server_keeps
        else softlabels.Model.fresh(sizes, rng, relu=relu)
    )
    training = softlabels.ClassifierTraining(
        hyper.server_epochs, hyper.server_batch, hyper.server_optimizer, hyper.server_lr
    )
    softlabels.teach(model, x, y, rng, training)
    now = softlabels.soft_labels(model.logits(x), y, hyper.tau2, hyper.average)  # (8)
    shared["soft"] = softlabels.kept_beside(now, find(before.shared, "soft", SoftLabels))
    return GlobalState(shared, server={"classifier": model.tensors()} if hyper.server_keeps else {})


def scorers(turn: Turn[Hyper], me: Learner, state: Parts) -> Mapping[str, Scorer]:
    """The global high-level prototype nearest to ẑ; the classifier beside it."""
    prototypes, head = find(state, "high", Prototypes), ByHead(of_unit=True)
    # Squared distance to the raw means, as the authors' code has it, not the cosine: where ẑ points
    # at none of them the shortest mean wins, that of the class that agrees least with itself.
    return (
        {"head": head}
        if prototypes is None
        else {"prototype": NearestPrototype(prototypes, of_unit=True), "head": head}
    )


def paper_floats(turn: Turn[Hyper], uploads: Sequence[Parts], after: GlobalState) -> int:
    """All prototypes up, and the soft labels down once (table V)."""
    # On CIFAR-10 59 pairs of client and class × (400 + 120) + 10 × 10 = 30,780. The prototypes that
    # go back are in nobody's count of that table.
    soft = {name: part for name, part in after.shared.items() if name == "soft"}
    return sum(count_floats(parts) for parts in (*uploads, soft))


def _levels(hyper: Hyper) -> tuple[str, ...]:
    """Without a weight on the low level nothing of it is sent; the high one is what devices
    classify by.
    """
    return ("low", "high") if hyper.lam * hyper.alpha else ("high",)


def _features(me: Learner, level: str) -> Floats:
    features = me.features(low=True)
    return features.high if level == "high" or features.low is None else features.low


recipe = Recipe(
    name="fedmps",
    title="exchange class means of two feature levels; "
    "contrast with them, and learn from soft labels",
    hyper=Hyper,
    train=train,
    summarise=summarise,
    fold=fold,
    fuse=fuse,
    scorers=scorers,
    paper_floats=paper_floats,
    traits=Traits(mixed_backbones=False, own_width=("low",)),
)
