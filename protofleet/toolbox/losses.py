"""What a device minimises, as plain functions of torch tensors, in float32 whatever the network
computed in.

Nothing here imports torch before it is called, so that recipes can be read and fused where there is
none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

# What holds of all of them. A class without a prototype is told by `have` (1.0 or 0.0 a class id),
# by which terms are multiplied, never by a branch: a branch on values cannot be traced into a
# compiled step. So an absent row must give a finite term, since NaN times zero is NaN. And whatever
# the network computed in, exponents and logarithms are taken in float32: bf16 has barely three
# digits, and a temperature of 0.07 multiplies what is wrong with a score by 14 before the
# exponential.


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy over the batch."""
    from torch.nn import functional

    return functional.cross_entropy(logits.float(), labels)


def to_prototype(z: Tensor, labels: Tensor, prototypes: Tensor, have: Tensor) -> Tensor:
    """Mean over batch and d of (z − prototype of the label)²; samples of classes without one count
    as zero.

    FedProto (5) as its official code takes it: a mean, not a norm, so λ does not depend on the
    batch.
    """
    # The mean is over all of the batch, also samples that are not pulled, as `MSELoss` would have
    # it on a batch whose targets are their own embeddings: a sample's pull does not grow when
    # others have none.
    gap = z.float() - prototypes[labels]
    return (gap * gap * have[labels].unsqueeze(1)).mean()


def proximal(weights: Mapping[str, Tensor], anchor: Mapping[str, Tensor]) -> Tensor:
    """½‖w − w_g‖² over all weights (FedProx, its formula 2 without μ)."""
    import torch

    # Summed, not averaged, over all weights: μ is then the paper's, and 0.01 is little or much
    # depending on how many there are.
    return (
        0.5
        * torch.stack(
            [((w.float() - anchor[name]) ** 2).sum() for name, w in weights.items()]
        ).sum()
    )


def dot_regression(projected: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
    """Mean of ½(hᵀt − 1)² over the batch, h the projection scaled to length one, t its label's unit
    row (GFPL (12)).
    """
    from torch.nn import functional

    # `normalize` floors the length at 10⁻¹²: a projection of zeros gives a cosine of 0 and a finite
    # gradient. t is of length one already. What the projection's length does is left
    # open: the gradient is at right angles to it.
    h = functional.normalize(projected.float(), dim=1)
    return 0.5 * (((h * targets[labels]).sum(1) - 1) ** 2).mean()


def supcon(
    z: Tensor, labels: Tensor, prototypes: Tensor, have: Tensor, temperature: float
) -> Tensor:
    """Supervised contrast within 2B rows: the batch and, for each sample, its class's prototype
    (FedMPS (3)).

    A prototype that is not there is neither anchor nor compared with; the mean is over the anchors
    with a positive.
    """
    import torch

    # V of (3): B embeddings and B prototypes, one a sample, so a class twice in the batch has its
    # prototype in V twice, as printed. `there` is 1 for all samples and for prototypes that exist.
    rows = torch.cat([z.float(), prototypes[labels]])
    of = torch.cat([labels, labels])
    there = torch.cat([torch.ones_like(have[labels]), have[labels]])
    others = there * (1 - torch.eye(len(rows), device=rows.device))  # A(i), a row an anchor
    positives = others * (of.unsqueeze(0) == of.unsqueeze(1))  # R(i)
    with torch.autocast(rows.device.type, enabled=False):
        scores = rows @ rows.T / temperature
    # −10⁹ and not −inf: a row that has nobody to compare with (one sample, no prototype) would have
    # the log of nothing, −inf, and 0 · inf below is NaN. e^(−10⁹) is 0 beside any real score.
    log_shares = scores - scores.masked_fill(others == 0, -1e9).logsumexp(1, keepdim=True)
    per_anchor = (positives * log_shares).sum(1) / positives.sum(1).clamp(min=1)
    # |I| in (3) counts the anchors that have a positive, as in the authors' code; the paper takes
    # 2B, where every sample has its prototype for one. Both clamps divide 0 by 1 where there is
    # nobody.
    anchors = there * (positives.sum(1) > 0)
    return -(anchors * per_anchor).sum() / anchors.sum().clamp(min=1)


def kl_to_soft_labels(
    logits: Tensor, labels: Tensor, soft: Tensor, have: Tensor, temperature: float
) -> Tensor:
    """Mean over the batch of KL(soft label of y ‖ softmax(logits / τ)); 0 for classes without one
    (FedMPS (6)).
    """
    import torch

    # `xlogy` is 0 at 0, where log would be −inf: the rows of classes without a soft label are
    # zeros, and a share may round to zero on the wire. Only the student is divided by τ here; the
    # soft labels were made at τ2 by (8). There is no τ² in front, as distillation often has: (6)
    # has none.
    target = soft[labels]
    divergence = torch.xlogy(target, target) - target * torch.log_softmax(
        logits.float() / temperature, 1
    )
    return (divergence.sum(1) * have[labels]).mean()


def to_pool(
    z: Tensor, labels: Tensor, pool: Tensor, filled: Tensor, have: Tensor, temperature: float
) -> Tensor:
    """−log of the own class's share among all classes, within each filled row of the pool [R, C,
    d], averaged over the rows and the batch (MP-FedCL (11), its index p read as the label).

    z and the pool's vectors are compared as they come. Classes without prototypes are not compared
    with, and samples of such a class count as zero.
    """
    import torch
    from torch.nn import functional

    # As a cross-entropy with the prototypes for classes: each row of the pool (one slot of one
    # device) has one of every class, so (B, R, C) scores are B·R small classifications. A class
    # that nobody has gets −10⁹, out of every softmax; if it is the label, the term is large but
    # finite, and `have` takes it out. `filled` tells the rows in use from those that only keep the
    # shape the same.
    rows, classes = pool.shape[:2]
    with torch.autocast(z.device.type, enabled=False):
        scores = (z.float() @ pool.flatten(0, 1).T).view(-1, classes) / temperature + (
            have - 1
        ) * 1e9
        per_row = functional.cross_entropy(
            scores, labels.repeat_interleave(rows), reduction="none"
        ).view(-1, rows)
        mean = (per_row * filled).sum(1) / filled.sum().clamp(min=1)
    return (mean * have[labels]).mean()


def between_models(z: Tensor, of_global: Tensor, of_previous: Tensor, temperature: float) -> Tensor:
    """−log of the global model's share among it and the previous one, by cosine (MOON), averaged
    over the batch.
    """
    from torch.nn import functional

    # A softmax of two is a sigmoid of their difference; `logsigmoid` does not overflow at any τ.
    # The cosine is floored at length 10⁻⁸, so a network that answers with zeros gives 0 and no NaN.
    near, off = (
        functional.cosine_similarity(z.float(), other.float(), dim=1)
        for other in (of_global, of_previous)
    )
    return -functional.logsigmoid((near - off) / temperature).mean()
