"""Runs a recipe's phases on a device's samples: the very trainer of the lab and of the live
fleet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from edge_agent.training.batches import SampleTensors, feature_batches, training_batches
from edge_agent.training.step import Rates, Stepper
from protofleet.errors import TrainingDiverged
from protofleet.recipe import Phase, Turn


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
    training, numerics = turn.contract.training, turn.contract.numerics
    batch_size = phase.batch_size or training.batch_size
    # Round 1 trains with the rate as it is set; it decays from the second on.
    rates = Rates(
        (training.lr if phase.lr is None else phase.lr) * training.lr_decay ** (turn.round - 1),
        training.momentum if phase.momentum is None else phase.momentum,
        training.weight_decay if phase.weight_decay is None else phase.weight_decay,
    )
    # Copies, because values are read-only and torch knows no such tensors.
    loss_inputs = {
        name: torch.from_numpy(np.array(a)).to(numerics.device) for name, a in phase.given.items()
    }
    # Dropout is the one thing that draws from torch's generator: it starts from a named seed of its
    # own.
    torch.manual_seed(turn.seed(f"{purpose}/torch"))
    net = stepper.net
    net.train()
    # A phase that trains the head alone must not move the statistics of the layers below it.
    if turn.contract.freeze or (phase.train and "backbone" not in phase.train):
        net.backbone.eval()
    step = stepper.start(phase.loss, turn.hyper, phase.train, loss_inputs, rates)
    for epoch in range(training.local_epochs if phase.epochs is None else phase.epochs):
        # By name, epoch for epoch: an epoch's order is the same whatever was drawn before it.
        rng = turn.rng(f"{purpose}/{epoch}")
        if phase.data is None:
            kind = turn.contract.input
            batches = training_batches(samples, kind, numerics, batch_size, training.augment, rng)
        else:
            batches = feature_batches(*phase.data, numerics, batch_size, rng)
        for batch in batches:
            step(batch, len(batch.y) == batch_size)
    # Once a phase and not once a step: a weight that is not finite stays so, and each look at it
    # would wait for the device.
    if not all(bool(torch.isfinite(weight).all()) for weight in net.parameters()):
        raise TrainingDiverged(
            f"agent {turn.agent}, round {turn.round}: training diverged",
            "try a smaller learning rate",
        )
