"""Runs a recipe's phases on a device's samples: the very trainer of the lab and of the live
fleet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from edge_agent.networks.net import FleetNet
from edge_agent.training.batches import (
    SampleTensors,
    feature_batches,
    smallest_batch,
    training_batches,
)
from edge_agent.training.step import Rates, Stepper
from protofleet.contract import Training
from protofleet.errors import TrainingDiverged
from protofleet.recipe import Batch, Phase, Turn


def run_phases(
    stepper: Stepper, phases: Sequence[Phase], samples: SampleTensors, turn: Turn[Any], stage: str
) -> None:
    """Train in place. `stage` names this training in the seeds (a round may train on arrival and
    once more later).
    """
    for number, phase in enumerate(phases):
        _run(stepper, phase, samples, turn, f"{stage}/{number}")


def _run(
    stepper: Stepper, phase: Phase, samples: SampleTensors, turn: Turn[Any], purpose: str
) -> None:
    # Dropout is the one thing that draws from torch's generator: it starts from a named seed of its
    # own.
    torch.manual_seed(turn.seed(f"{purpose}/torch"))
    net, inner = stepper.net, phase.between
    if phase.rows is not None:
        samples = SampleTensors(samples.x[phase.rows], samples.y[phase.rows])
    # What runs between the steps of a phase has momenta that live as long as the phase does, as
    # when both optimisers are made before the loop over epochs.
    step = _begun(stepper, phase, turn)
    inner_step = None if inner is None else _begun(stepper, inner, turn)
    _set_modes(net, phase, turn)
    for epoch in range(_epochs(phase, turn)):
        # By name, epoch for epoch: an epoch's order is the same whatever was drawn before it.
        batches = _batches(phase, samples, turn, turn.rng(f"{purpose}/{epoch}"))
        for number, batch in enumerate(batches):
            step(batch)
            if inner is None or inner_step is None:
                continue
            _set_modes(net, inner, turn)
            for again in range(_epochs(inner, turn)):
                rng = turn.rng(f"{purpose}/{epoch}/between/{number}/{again}")
                for between in _batches(inner, samples, turn, rng):
                    inner_step(between)
            _set_modes(net, phase, turn)
    # Once a phase and not once a step: a weight that is not finite stays so, and each look at it
    # would wait for the device.
    if not all(bool(torch.isfinite(weight).all()) for weight in net.parameters()):
        raise TrainingDiverged(
            f"agent {turn.agent}, round {turn.round}: training diverged",
            way_out(net, len(samples), turn.contract.training),
        )


def way_out(net: FleetNet, count: int, training: Training) -> str:
    """What to do where a device with so many samples trained into numbers that are not finite."""
    # On small images torchvision's networks end in maps of one pixel, where a channel's statistics
    # are of as many numbers as the batch has samples. Of two or three they are next to nothing, and
    # dividing by them in a dozen layers in a row gives gradients 10³ to 10⁷ times those of a full
    # batch (measured: efficientnet_b0, shufflenet_v2_x1_0, mobilenet_v2 on CIFAR-10, float32 and
    # bf16 alike; resnet8, whose maps stay larger, does not notice).
    least = smallest_batch(count, training.batch_size, drop_last=training.last_batch == "drop")
    normalised = any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in net.modules())
    if normalised and least <= 3 and count > training.batch_size:
        return (
            f"its last batch has {least} samples, too few for batch statistics: --last-batch drop"
        )
    return "try a smaller learning rate"


def _begun(stepper: Stepper, phase: Phase, turn: Turn[Any]) -> Callable[[Batch], None]:
    """The step of this phase, with fresh momenta."""
    training, size = turn.contract.training, _batch_size(phase, turn)
    # Round 1 trains with the rate as it is set; it decays from the second on.
    rates = Rates(
        (training.lr if phase.lr is None else phase.lr) * training.lr_decay ** (turn.round - 1),
        training.momentum if phase.momentum is None else phase.momentum,
        training.weight_decay if phase.weight_decay is None else phase.weight_decay,
    )
    # Copies, because values are read-only and torch knows no such tensors.
    device = turn.contract.numerics.device
    loss_inputs = {
        name: torch.from_numpy(np.array(a)).to(device) for name, a in phase.given.items()
    }
    step = stepper.start(phase.loss, turn.hyper, phase.train, loss_inputs, rates)
    return lambda batch: step(batch, len(batch.y) == size)


def _set_modes(net: FleetNet, phase: Phase, turn: Turn[Any]) -> None:
    net.train()
    # A phase that trains the head alone must not move the statistics of the layers below it.
    still = turn.contract.freeze or phase.still
    if still or (phase.train and "backbone" not in phase.train):
        net.backbone.eval()


def _batches(
    phase: Phase, samples: SampleTensors, turn: Turn[Any], rng: np.random.Generator
) -> Iterator[Batch]:
    contract, size = turn.contract, _batch_size(phase, turn)
    if phase.data is None:
        training, numerics = contract.training, contract.numerics
        drop = training.last_batch == "drop"
        return training_batches(
            samples, contract.input, numerics, size, training.augment, rng, drop_last=drop
        )
    x, y = phase.data(rng) if callable(phase.data) else phase.data
    return feature_batches(x, y, contract.numerics, size, rng)


def _epochs(phase: Phase, turn: Turn[Any]) -> int:
    return turn.contract.training.local_epochs if phase.epochs is None else phase.epochs


def _batch_size(phase: Phase, turn: Turn[Any]) -> int:
    return phase.batch_size or turn.contract.training.batch_size
