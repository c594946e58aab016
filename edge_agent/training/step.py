"""One step of training: loss, gradients, SGD with momentum; as it stands, or traced once and
compiled.

The compiled form is the same step written as one graph over plain tensors (weights, momenta, batch,
what the loss was given), so that nothing of Python is left between the first convolution and the
updated weight.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from edge_agent.networks.net import FleetNet
from protofleet.contract import Numerics
from protofleet.recipe import Batch, Given, Loss

Compiled = Callable[..., Any]
Step = Callable[[Batch, bool], None]


@dataclass(frozen=True)
class Rates:
    """The optimiser's settings for one phase of one round."""

    lr: float
    momentum: float
    weight_decay: float


def sgd(
    weights: Sequence[Tensor],
    gradients: Sequence[Tensor | None],
    momenta: Sequence[Tensor],
    lr: float | Tensor,
    rates: Rates,
) -> None:
    """SGD with momentum and weight decay, as torch.optim.SGD has it; weights without a gradient
    stay.
    """
    for weight, gradient, momentum in zip(weights, gradients, momenta, strict=True):
        if gradient is None:
            continue
        move = gradient
        if rates.weight_decay:
            move = move + rates.weight_decay * weight
        if rates.momentum:
            move = momentum.mul_(rates.momentum).add_(move)
        if isinstance(lr, Tensor):
            weight.sub_(lr * move)
        else:
            weight.sub_(move, alpha=lr)


class Stepper:
    """Steps one network; keeps the compiled steps of the shapes it has met."""

    def __init__(self, net: FleetNet, numerics: Numerics) -> None:
        self.net = net
        self.numerics = numerics
        self._compiled: dict[Any, Compiled] = {}

    def start(
        self, loss: Loss, hyper: Any, modules: Sequence[str], given: Given, rates: Rates
    ) -> Step:
        """A stretch of training with fresh momenta; call it with a batch, and whether that has the
        usual size.
        """
        named = self.net.weights(*modules)
        chosen = {k: v for k, v in named.items() if isinstance(v, nn.Parameter) and v.requires_grad}
        weights = list(chosen.values())
        momenta = [torch.zeros_like(weight) for weight in weights]

        def as_it_stands(batch: Batch, full: bool) -> None:
            with self._precision():
                value = loss(self.net, batch, given, hyper)
            gradients = torch.autograd.grad(value, weights, allow_unused=True)
            with torch.no_grad():
                sgd(weights, gradients, momenta, rates.lr, rates)

        if not self.numerics.compile:
            return as_it_stands

        state = {
            k: v.detach() for k, v in (*self.net.named_parameters(), *self.net.named_buffers())
        }
        lr = torch.tensor(rates.lr, device=self.numerics.device)
        tensors = [*state.values(), *momenta, *given.values(), lr]
        key = (loss, hyper, tuple(chosen), rates.momentum, rates.weight_decay, tuple(given))

        fast: Compiled | None = None

        def compiled(batch: Batch, full: bool) -> None:
            nonlocal fast
            if not full:  # one short batch a pass is not worth a graph of its own
                as_it_stands(batch, full)
                return
            flat = [batch.x, batch.y, *tensors]
            if fast is None:
                shapes = (key, tuple((t.shape, t.stride(), t.dtype) for t in flat))
                if shapes not in self._compiled:
                    names = (list(chosen), list(state), list(given))
                    self._compiled[shapes] = self._compile(loss, hyper, names, rates, flat)
                fast = self._compiled[shapes]
            fast(*flat)

        return compiled

    def _precision(self) -> contextlib.AbstractContextManager[Any]:
        if self.numerics.dtype == "bf16":
            return torch.autocast(self.numerics.device, torch.bfloat16)
        return contextlib.nullcontext()

    def _compile(
        self,
        loss: Loss,
        hyper: Any,
        named: tuple[list[str], list[str], list[str]],
        rates: Rates,
        example: list[Tensor],
    ) -> Compiled:
        from torch.fx.experimental.proxy_tensor import make_fx

        net = self.net
        names, state_names, given_names = named

        def step(x: Tensor, y: Tensor, *flat: Tensor) -> Tensor:
            left = iter(flat)
            state = {name: next(left) for name in state_names}
            momenta = [next(left) for _ in names]
            given = {name: next(left) for name in given_names}
            lr = next(left)
            leaves = {name: state[name].detach().requires_grad_() for name in names}
            with self._precision():
                value = _call(net, {**state, **leaves}, loss, Batch(x, y), given, hyper)
            gradients = torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
            with torch.no_grad():
                sgd([state[name] for name in names], gradients, momenta, lr, rates)
            return value.detach()

        # Tracing runs the step once: on copies, and without drawing from the generator that
        # training draws from.
        with torch.random.fork_rng(devices=[]):
            graph = make_fx(step)(*[t.clone() for t in example])
        # The graph reads nothing but its arguments, whose shapes chose it: nothing is left to guard
        # at every call.
        compiled: Compiled = torch.compile(
            graph, dynamic=False, options={"guard_filter_fn": torch.compiler.skip_all_guards_unsafe}
        )
        return compiled


class _Call(nn.Module):
    """A loss as a module, so that `functional_call` can run it on weights that are passed in."""

    def __init__(self, net: FleetNet) -> None:
        super().__init__()
        self.net = net

    def forward(self, loss: Loss, batch: Batch, given: Given, hyper: Any) -> Tensor:
        return loss(self.net, batch, given, hyper)


def _call(
    net: FleetNet, state: dict[str, Tensor], loss: Loss, batch: Batch, given: Given, hyper: Any
) -> Tensor:
    named = {f"net.{name}": tensor for name, tensor in state.items()}
    value: Tensor = torch.func.functional_call(_Call(net), named, (loss, batch, given, hyper))
    return value
