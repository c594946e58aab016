"""FedProto's round as reference codes write it: what `protofleet bench lab` measures ourselves
against.

One plain per-device PyTorch loop; samples reach it from tensors in memory, or from a DataLoader
with per-sample transforms as in the official code. The floor is nothing but forward, backward and
step on one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from edge_agent.networks.torch_env import torchvision
from edge_agent.training.batches import SampleTensors, prepare
from protofleet.contract import Contract

Feed = Callable[[SampleTensors, Contract, bool], Iterator[tuple[Tensor, Tensor]]]


@dataclass(eq=False)
class PlainFedProto:
    """Every device with a model of its own; a round trains, takes class means, averages them and
    evaluates.
    """

    models: Sequence[nn.Module]
    train: Sequence[SampleTensors]
    test: Sequence[SampleTensors]
    contract: Contract
    feed: Feed
    table: Tensor = field(init=False)
    have: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.table = torch.zeros(self.contract.n_classes, self.contract.embedding)
        self.have = torch.zeros(self.contract.n_classes)

    def round(self) -> float:
        """One round; the mean accuracy by the nearest global prototype among a device's own
        classes.
        """
        training = self.contract.training
        sums, holders = torch.zeros_like(self.table), torch.zeros_like(self.have)
        for model, samples in zip(self.models, self.train, strict=True):
            model.train()
            optimiser = torch.optim.SGD(
                model.parameters(), lr=training.lr, momentum=training.momentum
            )
            for x, y in self.feed(samples, self.contract, True):
                optimiser.zero_grad()
                _, z, logits = model(x)
                # FedProto (5), as its published code has it: every sample is pulled, and not their
                # mean. A class that nobody has sent yet pulls nowhere.
                pull = ((z - self.table[y]) ** 2 * self.have[y].unsqueeze(1)).mean()
                loss = functional.cross_entropy(logits, y) + pull
                loss.backward()
                optimiser.step()
            model.eval()
            with torch.no_grad():
                pairs = [(model(x)[1], y) for x, y in self.feed(samples, self.contract, False)]
            z, y = torch.cat([z for z, _ in pairs]), torch.cat([y for _, y in pairs])
            for label in torch.unique(y):
                sums[label] += z[y == label].mean(0)
                holders[label] += 1
        # The plain mean over holders: so its code has (6), which is printed with sample counts.
        self.table, self.have = sums / holders.clamp(min=1).unsqueeze(1), (holders > 0).float()
        return self._accuracy()

    def _accuracy(self) -> float:
        shares = []
        for model, train, test in zip(self.models, self.train, self.test, strict=True):
            own, right = torch.unique(train.y), 0
            with torch.no_grad():
                for x, y in self.feed(test, self.contract, False):
                    right += int(
                        (own[torch.cdist(model(x)[1], self.table[own]).argmin(1)] == y).sum()
                    )
            shares.append(right / len(test))
        return sum(shares) / len(shares)


def in_memory(
    samples: SampleTensors, contract: Contract, training: bool
) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches sliced from tensors that were made ready once; augmentation per batch."""
    size = contract.training.batch_size
    if not training:
        for start in range(0, len(samples), 256):
            yield (
                prepare(samples.x[start : start + 256], contract.input, contract.numerics),
                samples.y[start : start + 256],
            )
        return
    crop = contract.training.augment == "crop-flip"
    raw = functional.pad(samples.x, (4,) * 4) if crop else samples.x
    x = prepare(raw, contract.input, contract.numerics)
    order = torch.randperm(len(samples))
    for start in range(0, len(order), size):
        at = order[start : start + size]
        batch = x[at]
        if crop:
            batch = _crop_flip(batch, samples.x.shape[2])
        yield batch, samples.y[at]


def _crop_flip(x: Tensor, size: int) -> Tensor:
    rows, columns = torch.randint(0, 9, (2, len(x))).tolist()
    cropped = torch.stack(
        [s[:, r : r + size, c : c + size] for s, r, c in zip(x, rows, columns, strict=True)]
    )
    return torch.where(torch.rand(len(x), 1, 1, 1) < 0.5, cropped.flip(3), cropped)


def with_loader(
    samples: SampleTensors, contract: Contract, training: bool
) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches from a DataLoader over PIL images and per-sample transforms, as the official code has
    it.
    """
    transforms = torchvision().transforms
    kind = contract.input
    steps = [transforms.ToPILImage()]
    if training and contract.training.augment == "crop-flip":
        steps += [
            transforms.RandomCrop(kind.shape[0], padding=4),
            transforms.RandomHorizontalFlip(),
        ]
    ready = transforms.Compose(
        [*steps, transforms.ToTensor(), transforms.Normalize(kind.mean, kind.std)]
    )
    pairs = [(image, int(label)) for image, label in zip(samples.x, samples.y, strict=True)]
    loader: DataLoader[tuple[Tensor, int]] = DataLoader(
        _Transformed(pairs, ready),
        batch_size=contract.training.batch_size if training else 64,
        shuffle=training,
    )
    yield from loader


class _Transformed(Dataset[tuple[Tensor, int]]):
    def __init__(
        self, pairs: Sequence[tuple[Tensor, int]], transform: Callable[[Tensor], Tensor]
    ) -> None:
        self.pairs, self.transform = pairs, transform

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = self.pairs[index]
        return self.transform(image), label


# What no implementation can go below: the arithmetic of the steps without data, losses, prototypes
# or evaluation. It says how much of a round there is to win at all.
def floor(model: nn.Module, samples: SampleTensors, contract: Contract, steps: int) -> None:
    """As many bare steps on one batch: forward, backward, step."""
    size = contract.training.batch_size
    x, y = prepare(samples.x[:size], contract.input, contract.numerics), samples.y[:size]
    optimiser = torch.optim.SGD(
        model.parameters(), lr=contract.training.lr, momentum=contract.training.momentum
    )
    model.train()
    for _ in range(steps):
        optimiser.zero_grad()
        functional.cross_entropy(model(x)[2], y).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
