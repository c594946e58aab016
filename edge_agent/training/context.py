"""What one process trains with: resident networks (one a backbone) and their steppers, shared by
the agents in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from edge_agent.networks.backbones import Factory
from edge_agent.networks.net import FleetNet, build_net
from edge_agent.networks.pretrained import freeze, load_pretrained
from edge_agent.training.step import Stepper
from protofleet.contract import Contract, Numerics
from protofleet.recipe import Recipe, Turn
from protofleet.util import seeds
from protofleet.util.allocator import keep_freed_memory


@dataclass(eq=False)
class TrainingContext:
    """Agents move their weights in and out of its networks."""

    contract: Contract
    recipe: Recipe[Any]
    hyper: Any
    networks: Mapping[str, Factory] = field(
        default_factory=dict
    )  # beside those that have a name of their own
    _steppers: dict[str, Stepper] = field(default_factory=dict)

    def turn(self, round: int, agent: str) -> Turn[Any]:
        """What the recipe's moves are given."""
        return Turn(self.contract, self.hyper, round, agent)

    def stepper(self, backbone: str) -> Stepper:
        """The resident network of this backbone, with its stepper."""
        if backbone not in self._steppers:
            # Any seed will do: every agent loads weights of its own before it moves.
            net = self._new_net(backbone, 0).to(self.contract.numerics.device)
            if self.contract.numerics.layout == "channels-last":
                net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            self._steppers[backbone] = Stepper(net, self.contract.numerics)
        return self._steppers[backbone]

    def initial_weights(self, backbone: str, agent: str) -> dict[str, Tensor]:
        """What an agent starts from: its own draw, or the fleet's common one."""
        # Methods that average weights need a common start: a mean of networks that were drawn apart
        # is no network.
        who = "the fleet" if self.contract.common_start else agent
        seed = seeds.seed_of(
            self.contract.seed, self.contract.run, who, backbone, "initial weights"
        )
        net = self._new_net(backbone, seed)
        return {name: tensor.detach().clone() for name, tensor in net.state_dict().items()}

    def _new_net(self, backbone: str, seed: int) -> FleetNet:
        heads = self.recipe.heads(self.turn(0, ""))
        net = build_net(self.contract, backbone, heads, seed, self.networks)
        if self.contract.pretrained:
            load_pretrained(net.backbone, backbone, self.contract.pretrained)
        if self.contract.freeze:
            freeze(net)
        return net


def settle(numerics: Numerics) -> None:
    """Make this process compute as the contract says."""
    keep_freed_memory()
    torch.set_num_threads(numerics.threads)
    # Numpy's products too: their threads change bits and get in each other's way.
    threadpool_limits(numerics.threads)
    # On accelerators some operations have no deterministic form, and a warning is all one can get.
    # Through the debug mode: `use_deterministic_algorithms` loads the compiler, which costs every
    # process a second and its memory. Where a step is compiled, `Stepper` says it to the compiler.
    torch.set_deterministic_debug_mode("error" if numerics.device == "cpu" else "warn")
    # Writing NaN into every new tensor guards against reading uninitialised memory, and costs a
    # tenth of a step.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
