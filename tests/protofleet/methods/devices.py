"""A device as recipes see it, around a real network: no training loop, no data set, no wire."""

from dataclasses import dataclass, field

import numpy as np
import torch

from edge_agent.networks.net import FleetNet, build_net
from protofleet.contract import Contract, Input
from protofleet.recipe import Batch
from protofleet.values.prototypes import Ints, Parts, Tensors

CONTRACT = Contract("f", "r", 0, ("a", "b", "c"), Input("vector", (4,)), 5, head_hidden=(6,))


@dataclass
class NetDevice:
    """Its weights are those of its network, and what it loads goes into the network."""

    net: FleetNet
    samples: int = 9
    agent: str = "one"
    classes: Ints = field(default_factory=lambda: np.arange(3))
    memory: dict[str, Parts] = field(default_factory=dict)

    def weights(self, *modules: str) -> Tensors:
        return Tensors({k: w.detach().numpy() for k, w in self.net.weights(*modules).items()})

    def load(self, weights: Tensors) -> None:
        own = self.net.weights()
        with torch.no_grad():
            for name, array in weights.arrays.items():
                own[name].copy_(torch.from_numpy(np.array(array)))


def device(seed: int, samples: int = 9, agent: str = "one") -> NetDevice:
    """One with a small network of its own weights."""
    return NetDevice(build_net(CONTRACT, "mlp", {}, seed).eval(), samples, agent)


def batch(n: int, seed: int = 0) -> Batch:
    """Random samples that fit the contract."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand((n, *CONTRACT.input.shape), generator=generator)
    return Batch(x, torch.randint(0, CONTRACT.n_classes, (n,), generator=generator))
