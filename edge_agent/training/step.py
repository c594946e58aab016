"""One step of training: loss, gradients, SGD with momentum; as it stands, or traced once and
compiled.

The compiled form is the same step written as one graph over plain tensors (weights, momenta, batch,
what the loss was given), so that nothing of Python is left between the first convolution and the
updated weight.
"""

# Theory of operation
#
# `Stepper.start` begins a stretch of training (one phase of one round) and returns the step to call
# with each batch. A step is one of two, which compute the same:
#
#   as it stands   the loss on the network, autograd.grad, `sgd`. The truth; always for a last batch
#                  of another size, and for every batch where the contract does not compile.
#   compiled       the same lines traced by make_fx on plain tensors and given to torch.compile.
#
# Why traced whole: the networks are small, a step takes a fraction of a millisecond, and Python
# between the operations costs as much as they do. Compiling the network alone would leave the
# bookkeeping of the backward pass and the optimiser's loop outside; torch.compile on the whole
# function stops at `requires_grad_` and leaves it in pieces. make_fx records what was in fact
# called, the backward pass's operations and the updates among them, so one graph holds all of it.
#
# The graph reads and writes its arguments only, always in this order:
#
#   x, y | weights and buffers (all of the network's) | momenta | loss inputs | learning rate
#
# It updates weights, momenta and running statistics in place, so that the network is trained and
# nothing is copied out. What may change from call to call without a new trace is every value in
# those tensors. The learning rate is a tensor for that reason: it decays from round to round.
# What the trace has made constant must stand in the key that chooses it:
#
#   in the key                                 constant because
#   loss, hyper                                they are called while tracing (a loss must be a
#                                              module's function: a closure made per round would
#                                              never be met again)
#   names of the weights that learn            the gradients taken
#   momentum, weight decay                     plain numbers; at 0 their operations are left out
#   names of the loss inputs                   the arguments' order
#   shape, stride, type of every argument      the kernels
#
# Training or evaluation mode of the modules is constant, too, and is not in the key:
# `phases._set_modes` derives it from the contract's `freeze`, which does not change in the life of
# a Stepper, from which modules learn, which the names tell, and from the phase's `still`, which is
# the same for all phases of one loss.
#
# Traps:
# - All guards are switched off: the graph reads nothing but its arguments, and the key has looked
#   at those. So nothing notices an argument of another shape later: within a stretch the first
#   full batch chooses the graph for all, and `full` must be true only for batches of that size.
# - Tracing runs the step once. It runs on copies (it would train) and under fork_rng (dropout would
#   draw, and training would go on from another place of the generator than without compiling).
# - In `sgd` the momentum is updated by `mul_` and `add_`. Saving a pass over memory with
#   `torch.add(move, momentum, alpha=m, out=momentum)` is right as it stands but not compiled: with
#   no weight decay, where `move` is the gradient itself, the compiled step then ends elsewhere.

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
class _Names:
    """What a graph's flat arguments are called, group by group in their order."""

    learning: list[str]
    state: list[str]
    loss_inputs: list[str]


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
            continue  # the loss does not reach it: no decay either, as in torch.optim
        move = gradient
        if rates.weight_decay:
            move = move + rates.weight_decay * weight
        if rates.momentum:
            move = momentum.mul_(rates.momentum).add_(move)
        if isinstance(lr, Tensor):  # in a graph, where a number would be made constant
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
        self, loss: Loss, hyper: Any, modules: Sequence[str], loss_inputs: Given, rates: Rates
    ) -> Step:
        """A stretch of training with fresh momenta; call it with a batch, and whether that has the
        usual size.
        """
        # Fresh in each stretch, as the papers' code makes a new optimiser in each round.
        named = self.net.weights(*modules)
        chosen = {k: v for k, v in named.items() if isinstance(v, nn.Parameter) and v.requires_grad}
        weights = list(chosen.values())
        momenta = [torch.zeros_like(weight) for weight in weights]

        def as_it_stands(batch: Batch, full: bool) -> None:
            with self._precision():
                value = loss(self.net, batch, loss_inputs, hyper)
            gradients = torch.autograd.grad(value, weights, allow_unused=True)
            with torch.no_grad():
                sgd(weights, gradients, momenta, rates.lr, rates)

        if not self.numerics.compile:
            return as_it_stands

        state = {
            k: v.detach() for k, v in (*self.net.named_parameters(), *self.net.named_buffers())
        }
        lr = torch.tensor(rates.lr, device=self.numerics.device)
        tensors = [*state.values(), *momenta, *loss_inputs.values(), lr]
        key = (loss, hyper, tuple(chosen), rates.momentum, rates.weight_decay, tuple(loss_inputs))

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
                    names = _Names(list(chosen), list(state), list(loss_inputs))
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
        names: _Names,
        rates: Rates,
        example: list[Tensor],
    ) -> Compiled:
        from torch.fx.experimental.proxy_tensor import make_fx

        net = self.net

        def step(x: Tensor, y: Tensor, *flat: Tensor) -> Tensor:
            rest = iter(flat)
            state = {name: next(rest) for name in names.state}
            momenta = [next(rest) for _ in names.learning]
            loss_inputs = {name: next(rest) for name in names.loss_inputs}
            lr = next(rest)
            # Gradients are taken for views of the state, and `sgd` writes into the state itself:
            # what the graph changes are its arguments, and with them the network.
            leaves = {name: state[name].detach().requires_grad_() for name in names.learning}
            with self._precision():
                value = _call(net, {**state, **leaves}, loss, Batch(x, y), loss_inputs, hyper)
            gradients = torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
            with torch.no_grad():
                sgd([state[name] for name in names.learning], gradients, momenta, lr, rates)
            return value.detach()

        with torch.random.fork_rng(devices=[]):
            graph = make_fx(step)(*[t.clone() for t in example])
        # What `settle` said of determinism, to the compiler, which is loaded from here on.
        torch.use_deterministic_algorithms(
            torch.are_deterministic_algorithms_enabled(),
            warn_only=torch.is_deterministic_algorithms_warn_only_enabled(),
        )
        compiled: Compiled = torch.compile(
            graph, dynamic=False, options={"guard_filter_fn": torch.compiler.skip_all_guards_unsafe}
        )
        return compiled


class _Call(nn.Module):
    """A loss as a module, so that `functional_call` can run it on weights that are passed in."""

    def __init__(self, net: FleetNet) -> None:
        super().__init__()
        self.net = net

    def forward(self, loss: Loss, batch: Batch, loss_inputs: Given, hyper: Any) -> Tensor:
        return loss(self.net, batch, loss_inputs, hyper)


def _call(
    net: FleetNet,
    state: dict[str, Tensor],
    loss: Loss,
    batch: Batch,
    loss_inputs: Given,
    hyper: Any,
) -> Tensor:
    named = {f"net.{name}": tensor for name, tensor in state.items()}
    value: Tensor = torch.func.functional_call(_Call(net), named, (loss, batch, loss_inputs, hyper))
    return value
