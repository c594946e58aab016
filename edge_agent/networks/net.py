"""A device's network: a backbone in two stages, the fleet's classifier on it, and what further
heads a recipe asks for.

Embedding size and classifier are the contract's, the same on every device whatever its backbone.
The last layer of every classifier is `head.out`, the layers before it are `head.hidden1` and so on;
what may follow it has no weights.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from edge_agent.networks import backbones
from edge_agent.networks.backbones import Factory, Stages
from protofleet.contract import Contract, Input
from protofleet.errors import UsageError
from protofleet.recipe import Linear


class WindowMeans(nn.Module):
    """`n` numbers as `d`, number i the mean of those from floor(i n/d) to ceil((i+1) n/d): torch's
    adaptive average pooling, without parameters.
    """

    windows: Tensor

    def __init__(self, n: int, d: int) -> None:
        super().__init__()
        # As a product, which every exporter knows (adaptive pooling to a size that does not divide
        # is none of ONNX's operations). Not in the state: there is nothing to send or to average.
        of, to = torch.arange(n), torch.arange(d).unsqueeze(1)
        inside = ((of >= to * n // d) & (of < ((to + 1) * n + d - 1) // d)).float()
        self.register_buffer("windows", (inside / inside.sum(1, keepdim=True)).T, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.windows


class UnitLength(nn.Module):
    """Every row scaled to length one: in float32, a length of bf16 has barely three digits."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.normalize(x.float())


class FleetNet(nn.Module):
    """What losses, trainer and evaluation see (`protofleet.recipe.Net`)."""

    def __init__(self, stages: Stages, contract: Contract, extras: Mapping[str, Linear]) -> None:
        super().__init__()
        d = contract.embedding
        self.unit = UnitLength() if contract.unit_embedding else nn.Identity()
        self.backbone = nn.ModuleDict({"low": stages.low, "high": stages.high})
        first, *hidden = contract.neck or (d,)
        if stages.dim != first:
            fitted = nn.Linear if contract.resize == "linear" else WindowMeans
            self.backbone["project"] = fitted(stages.dim, first)
        if hidden:
            self.backbone["neck"] = nn.Sequential(_hidden(first, hidden))
        self.head = _head(d, contract.head_hidden, contract.n_classes, stages.head_dropout)
        self._last = len(self.head) - 1
        if contract.head_relu:
            self.head.add_module("relu_out", nn.ReLU())
        if contract.unit_logits:
            self.head.add_module("unit_out", UnitLength())
        self.extras = nn.ModuleDict(
            {name: nn.Linear(d, head.out, head.bias) for name, head in extras.items()}
        )

    def features(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Low-level features, flattened, and embedding."""
        u = self.backbone["low"](x)
        z = self.backbone["high"](u)
        if "project" in self.backbone:
            z = self.backbone["project"](z)
        if "neck" in self.backbone:
            z = self.backbone["neck"](z)
        # Here and not in a loss, so that whoever reads an embedding (heads, prototypes, summaries,
        # an exported graph) reads this one: FedMPS's public code has its networks do so for every
        # method that it compares.
        return u.flatten(1), self.unit(z)

    def before_last(self, z: Tensor) -> Tensor:
        """What the classifier's last layer reads; the embedding itself where that is its only
        one.
        """
        read: Tensor = self.head[: self._last](z)
        return read

    def after_last(self, scores: Tensor) -> Tensor:
        """Logits, from what the classifier's last layer gives."""
        logits: Tensor = self.head[self._last + 1 :](scores)
        return logits

    def extra(self, name: str, z: Tensor) -> Tensor:
        """A head that the recipe asked for."""
        out: Tensor = self.extras[name](z)
        return out

    def features_with(self, weights: Mapping[str, Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
        """The features that this network would have with other weights (names as in `weights`), in
        evaluation mode: neither they nor their running statistics learn.
        """
        # Module by module, since parts of a network may be in evaluation mode while it trains.
        modes = [(module, module.training) for module in self.modules()]
        self.eval()
        try:
            with torch.no_grad():
                u, z, _ = torch.func.functional_call(self, dict(weights), (x,))
        finally:
            for module, training in modes:
                module.training = training
        return u, z

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Low-level features, embedding and logits."""
        u, z = self.features(x)
        return u, z, self.head(z)

    def weights(self, *modules: str) -> dict[str, Tensor]:
        """Weights and running statistics of "backbone", "head" or an extra head; of all when none
        is named.

        Parameters come as nn.Parameter, statistics as plain tensors; names are those of
        `state_dict`.
        """
        parts: dict[str, tuple[str, nn.Module]] = {
            "backbone": ("backbone.", self.backbone),
            "head": ("head.", self.head),
            **{name: (f"extras.{name}.", module) for name, module in self.extras.items()},
        }
        tensors: dict[str, Tensor] = {}
        for name in modules or parts:
            if name not in parts:
                raise UsageError(
                    f"the network has no module {name!r}", f"it has {', '.join(parts)}"
                )
            prefix, module = parts[name]
            tensors |= {prefix + key: weight for key, weight in module.named_parameters()}
            # Counters of batches have no effect on what is computed, and a mean of them no meaning.
            # What is not in the state (`WindowMeans`) is the same everywhere.
            state = module.state_dict().keys()
            tensors |= {
                prefix + key: b
                for key, b in module.named_buffers()
                if b.is_floating_point() and key in state
            }
        return tensors


def build_net(
    contract: Contract,
    backbone: str,
    extras: Mapping[str, Linear],
    seed: int,
    given: Mapping[str, Factory] = backbones.NONE,
) -> FleetNet:
    """A new network whose weights depend on the seed and on nothing that ran before; draws leave no
    trace.
    """
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed would reseed the GPUs, too, whose state fork_rng does not put back.
        torch.default_generator.manual_seed(seed)
        return FleetNet(backbones.build(backbone, contract.input, given), contract, extras)


def natural(
    name: str, input: Input, given: Mapping[str, Factory] = backbones.NONE
) -> tuple[int, tuple[int, ...]]:
    """The embedding size and the classifier's hidden sizes that this backbone has by itself."""
    # Weights are drawn on the way and thrown away; the caller's generator must not notice.
    with torch.random.fork_rng(devices=[]):
        stages = backbones.build(name, input, given)
    return stages.dim, stages.head_hidden


def _head(d: int, hidden: tuple[int, ...], n_classes: int, dropout: float) -> nn.Sequential:
    head = nn.Sequential()
    if dropout:
        head.add_module("dropout", nn.Dropout(dropout))
    for name, layer in _hidden(d, hidden).items():
        head.add_module(name, layer)
    head.add_module("out", nn.Linear((d, *hidden)[-1], n_classes))
    return head


def _hidden(d: int, widths: Sequence[int]) -> OrderedDict[str, nn.Module]:
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for i, (of, to) in enumerate(itertools.pairwise((d, *widths)), 1):
        layers |= {f"hidden{i}": nn.Linear(of, to), f"relu{i}": nn.ReLU()}
    return layers
