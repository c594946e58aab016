"""FedMPS's round as reference codes write it: the same losses in a plain per-device loop over
tensors in memory.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional

from edge_agent.networks.net import FleetNet
from edge_agent.training.batches import SampleTensors
from protofleet.contract import Contract
from protofleet.methods.fedmps import Hyper
from simulators.speed.reference import Feed

Table = dict[int, Tensor]


@dataclass(eq=False)
class PlainFedMPS:
    """Every device with a model of its own; a round trains, takes means of two levels, averages,
    teaches, evaluates.
    """

    models: Sequence[FleetNet]
    train: Sequence[SampleTensors]
    test: Sequence[SampleTensors]
    contract: Contract
    feed: Feed
    hyper: Hyper = field(default_factory=Hyper)
    low: Table = field(default_factory=dict)
    high: Table = field(default_factory=dict)
    soft: Table = field(default_factory=dict)
    server: nn.Module | None = None

    def round(self) -> float:
        """One round; the mean accuracy by the nearest global prototype among a device's own
        classes.
        """
        lows: list[Table] = []
        highs: list[Table] = []
        for model, samples in zip(self.models, self.train, strict=True):
            self._learn(model, samples)
            model.eval()
            with torch.no_grad():
                outputs = [
                    (*_levels(model, x), y) for x, y in self.feed(samples, self.contract, False)
                ]
            u, z, y = (torch.cat(column) for column in zip(*outputs, strict=True))
            lows.append({int(c): u[y == c].mean(0) for c in torch.unique(y)})
            highs.append({int(c): z[y == c].mean(0) for c in torch.unique(y)})
        self.low, self.high = _average(lows), _average(highs)
        self._teach(highs)
        return self._accuracy()

    def _learn(self, model: FleetNet, samples: SampleTensors) -> None:
        training, hyper = self.contract.training, self.hyper
        optimiser = torch.optim.SGD(model.parameters(), lr=training.lr, momentum=training.momentum)
        contrast = SupCon(hyper.tau1)
        model.train()
        for x, y in self.feed(samples, self.contract, True):
            optimiser.zero_grad()
            u, z = _levels(model, x)
            logits = model.head(z)
            loss = functional.cross_entropy(logits, y)
            # There is nothing to be near to in the first round.
            if self.high:
                low = contrast(
                    torch.cat([u, torch.stack([self.low[int(c)] for c in y])]), torch.cat([y, y])
                )
                high = contrast(
                    torch.cat([z, torch.stack([self.high[int(c)] for c in y])]), torch.cat([y, y])
                )
                soft = torch.stack([self.soft[int(c)] for c in y])
                pull = functional.kl_div(
                    functional.log_softmax(logits / hyper.tau2, 1), soft, reduction="batchmean"
                )
                loss = loss + hyper.lam * (hyper.alpha * low + hyper.beta * high) + hyper.mu * pull
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()

    def _teach(self, highs: Sequence[Table]) -> None:
        if self.server is None:
            self.server = copy.deepcopy(self.models[0].head)
        x = torch.stack([row for table in highs for row in table.values()])
        y = torch.tensor([label for table in highs for label in table])
        optimiser = torch.optim.SGD(self.server.parameters(), lr=0.01, momentum=0.5)
        for _ in range(self.hyper.server_epochs):
            for at in torch.split(torch.randperm(len(y)), self.hyper.server_batch):
                optimiser.zero_grad()
                loss = functional.cross_entropy(self.server(x[at]), y[at])
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
        with torch.no_grad():
            answers = functional.softmax(self.server(x) / self.hyper.tau2, 1)
        self.soft = {int(c): answers[y == c].mean(0) for c in torch.unique(y)}

    def _accuracy(self) -> float:
        shares = []
        for model, train, test in zip(self.models, self.train, self.test, strict=True):
            own, right = torch.unique(train.y), 0
            table = torch.stack([self.high[int(c)] for c in own])
            with torch.no_grad():
                for x, y in self.feed(test, self.contract, False):
                    right += int(
                        (own[torch.cdist(_levels(model, x)[1], table).argmin(1)] == y).sum()
                    )
            shares.append(right / len(test))
        return sum(shares) / len(shares)


class SupCon(nn.Module):
    """The supervised contrastive loss as its published code has it."""

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, rows: Tensor, labels: Tensor) -> Tensor:
        """The mean over all rows."""
        mask = torch.eq(labels.view(-1, 1), labels.view(1, -1)).float()
        scores = torch.div(rows @ rows.T, self.temperature)
        # For the exponent's sake: the largest score of a row is 0, and the shares stay what they
        # are.
        scores = scores - scores.max(dim=1, keepdim=True)[0].detach()
        others = torch.scatter(torch.ones_like(mask), 1, torch.arange(len(rows)).view(-1, 1), 0)
        mask = mask * others
        log_shares = scores - torch.log((torch.exp(scores) * others).sum(1, keepdim=True))
        return -((mask * log_shares).sum(1) / mask.sum(1)).mean()


def _levels(model: FleetNet, x: Tensor) -> tuple[Tensor, Tensor]:
    u, z = model.features(x)
    return functional.normalize(u, dim=1), functional.normalize(z, dim=1)


def _average(tables: Sequence[Table]) -> Table:
    labels = sorted({label for table in tables for label in table})
    return {c: torch.stack([table[c] for table in tables if c in table]).mean(0) for c in labels}
