"""What a device minimises, as plain functions of torch tensors, in float32 whatever the network computed in.

Nothing here imports torch before it is called, so that recipes can be read and fused where there is none.
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
    """Mean over batch and d of (z − prototype of the label)²; samples of classes without one count as zero.

    FedProto (5) as its official code takes it: a mean, not a norm, so λ does not depend on the batch.
    """
    gap = z.float() - prototypes[labels]
    return (gap * gap * have[labels].unsqueeze(1)).mean()


def proximal(weights: Mapping[str, Tensor], anchor: Mapping[str, Tensor]) -> Tensor:
    """½‖w − w_g‖² over all weights (FedProx, its formula 2 without μ)."""
    import torch

    return 0.5 * torch.stack([((w.float() - anchor[name]) ** 2).sum() for name, w in weights.items()]).sum()
