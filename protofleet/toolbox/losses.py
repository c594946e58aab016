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
    gap = z.float() - prototypes[labels]
    return (gap * gap * have[labels].unsqueeze(1)).mean()


def proximal(weights: Mapping[str, Tensor], anchor: Mapping[str, Tensor]) -> Tensor:
    """½‖w − w_g‖² over all weights (FedProx, its formula 2 without μ)."""
    import torch

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

    rows = torch.cat([z.float(), prototypes[labels]])
    of, there = (
        torch.cat([labels, labels]),
        torch.cat([torch.ones_like(have[labels]), have[labels]]),
    )
    others = there * (1 - torch.eye(len(rows), device=rows.device))  # A(i), a row an anchor
    positives = others * (of.unsqueeze(0) == of.unsqueeze(1))  # R(i)
    with torch.autocast(rows.device.type, enabled=False):
        scores = rows @ rows.T / temperature
    log_shares = scores - scores.masked_fill(others == 0, -1e9).logsumexp(1, keepdim=True)
    each = (positives * log_shares).sum(1) / positives.sum(1).clamp(min=1)
    anchors = there * (positives.sum(1) > 0)
    return -(anchors * each).sum() / anchors.sum().clamp(min=1)


def kl_to_soft_labels(
    logits: Tensor, labels: Tensor, soft: Tensor, have: Tensor, temperature: float
) -> Tensor:
    """Mean over the batch of KL(soft label of y ‖ softmax(logits / τ)); 0 for classes without one
    (FedMPS (6)).
    """
    import torch

    target = soft[labels]
    each = torch.xlogy(target, target) - target * torch.log_softmax(logits.float() / temperature, 1)
    return (each.sum(1) * have[labels]).mean()


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

    rows, classes = pool.shape[:2]
    with torch.autocast(z.device.type, enabled=False):
        scores = (z.float() @ pool.flatten(0, 1).T).view(-1, classes) / temperature + (
            have - 1
        ) * 1e9
        each = functional.cross_entropy(
            scores, labels.repeat_interleave(rows), reduction="none"
        ).view(-1, rows)
        mean = (each * filled).sum(1) / filled.sum().clamp(min=1)
    return (mean * have[labels]).mean()


def between_models(z: Tensor, of_global: Tensor, of_previous: Tensor, temperature: float) -> Tensor:
    """−log of the global model's share among it and the previous one, by cosine (MOON), averaged
    over the batch.
    """
    from torch.nn import functional

    near, off = (
        functional.cosine_similarity(z.float(), other.float(), dim=1)
        for other in (of_global, of_previous)
    )
    return -functional.logsigmoid((near - off) / temperature).mean()
