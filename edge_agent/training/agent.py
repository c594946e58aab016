"""A device in a run: it takes what comes back, trains, summarises and evaluates, by the moves of
its recipe.

The lab holds many of these in a process and the daemon one; both drive it by the same four calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edge_agent.networks.net import FleetNet
from edge_agent.training.batches import LocalData, SampleTensors, blocks
from edge_agent.training.context import TrainingContext
from edge_agent.training.evaluate import Tallies, evaluate
from edge_agent.training.phases import run_phases
from edge_agent.training.step import Stepper
from protofleet.errors import CheckpointError
from protofleet.recipe import Features, Scorer, no_phases, take_nothing
from protofleet.values.prototypes import Ints, Parts, Tensors


@dataclass(eq=False)
class LocalLearner:
    """What a recipe sees of this device; it exists while the agent's weights are in the network."""

    agent: str
    classes: Ints
    samples: int
    memory: dict[str, Parts]
    stepper: Stepper
    data: LocalData
    workshop: TrainingContext
    trained: Mapping[str, Tensor] | None = (
        None  # the weights as trained, while the network shows averaged ones
    )
    _seen: dict[bool, Features] = field(default_factory=dict)

    def features(self, *, low: bool = False) -> Features:
        """A clean pass over the training data; made once per state of the weights. Low-level
        features on request.
        """
        if low not in self._seen:
            net, contract = self.stepper.net, self.workshop.contract
            net.eval()
            kept = slice(0 if low else 1, None)  # low-level features of large images are large
            with torch.inference_mode():
                found = [
                    net(x)[kept] for x in blocks(self.data.train, contract.input, contract.numerics)
                ]
            *u, z, logits = (torch.cat(each).cpu().numpy() for each in zip(*found, strict=True))
            self._seen[low] = Features(z, logits, self.data.train.y.numpy(), u[0] if low else None)
        return self._seen[low]

    def weights(self, *modules: str) -> Tensors:
        """Weights and running statistics of these modules; of all when none is named."""
        shown = self.stepper.net.weights(*modules)
        return Tensors({k: (self.trained or shown)[k].detach().cpu().numpy() for k in shown})

    def load(self, weights: Tensors) -> None:
        """Take these tensors in, the rest stays."""
        have = self.stepper.net.weights()
        with torch.no_grad():
            for name, array in weights.arrays.items():
                have[name].copy_(torch.from_numpy(np.array(array)))
        self.changed()

    def changed(self) -> None:
        """The weights moved: what was seen through them is no longer true."""
        self._seen.clear()


@dataclass(frozen=True, eq=False)
class LearningState:
    """Where a device's learning stands: its weights, what its method remembers, and the average of
    weights before.
    """

    weights: dict[str, Tensor]
    memory: dict[str, Parts]
    past: dict[str, Tensor] | None = None
    rounds: int = 0  # that are in `past`

    def averaged(self, over: int) -> dict[str, Tensor]:
        """The moving average up to these weights: each round's part is at least 2/(over + 1)."""
        if self.past is None:
            return self.weights
        share = 2 / (1 + min(over, self.rounds + 1))
        return {
            name: torch.lerp(self.past[name], now, share) if now.is_floating_point() else now
            for name, now in self.weights.items()
        }


class Agent:
    """One device's state between rounds, and its moves.

    A state is taken in only to train on it: `receive` prepares on a copy, `work` makes the outcome
    lasting. So a device is what its uploads say it is, whichever other states it has seen in
    between.
    """

    def __init__(
        self, name: str, backbone: str, data: LocalData, workshop: TrainingContext
    ) -> None:
        self.name = name
        self.backbone = backbone
        self.data = data
        self.workshop = workshop
        self.got: Parts = {}
        self._seen_round = (
            self._trained_on
        ) = -1  # the states (by the round they came out of) seen and trained on last
        self._classes = np.unique(data.train.y.numpy())
        self._lasting = LearningState(workshop.initial_weights(backbone, name), {})
        self._ready = self._lasting

    def receive(self, round: int, shared: Parts, own: Parts) -> None:
        """Make ready to train on the state that this round ended in; where the method does, train
        on arrival.
        """
        self.got, self._seen_round = {**shared, **own}, round
        if round <= self._trained_on:
            return  # seen again: after a round without exchange, or a restart
        turn, recipe = self.workshop.turn(round, self.name), self.workshop.recipe
        self._ready = held = self._lasting
        if recipe.receive is take_nothing and recipe.adapt is no_phases:
            return
        with self._at_work() as me:
            recipe.receive(turn, me, self.got)
            phases = recipe.adapt(turn, me, self.got)
            if phases:
                run_phases(me.stepper, phases, self.data.train, turn, "adapt")
            self._ready = replace(_standing(me), past=held.past, rounds=held.rounds)

    def work(self, round: int) -> Parts:
        """Train for this round and say what is to be sent."""
        turn, recipe = self.workshop.turn(round, self.name), self.workshop.recipe
        with self._at_work() as me:
            phases = recipe.train(turn, me, self.got)
            run_phases(me.stepper, phases, self.data.train, turn, "train")
            me.changed()
            after = _standing(me)
            over = self.workshop.contract.averaging
            if over:
                after = replace(
                    after, past=self._ready.averaged(over), rounds=self._ready.rounds + 1
                )
                _put(me.stepper.net, after.averaged(over))
                me.trained = after.weights
            parts = recipe.summarise(turn, me, self.got)
            self._lasting = self._ready = after
        self._trained_on = self._seen_round
        return parts

    def evaluate(self, round: int) -> Tallies:
        """How the device classifies now, on its validation and test samples; it leaves no trace."""
        turn, recipe = self.workshop.turn(round, self.name), self.workshop.recipe
        with self._at_work(shown=True) as me:
            scorers = recipe.scorers(turn, me, self.got)
            splits = {"validation": self.data.validation, "test": self.data.test}
            return evaluate(me.stepper.net, scorers, splits, self._classes, self.workshop.contract)

    def embed(self, most: int) -> tuple[NDArray[np.float32], Ints]:
        """Embeddings of the first test samples and their labels: for pictures."""
        contract = self.workshop.contract
        some = SampleTensors(self.data.test.x[:most], self.data.test.y[:most])
        with self._at_work(shown=True) as me, torch.inference_mode():
            me.stepper.net.eval()
            found = [
                me.stepper.net(x)[1].cpu().numpy()
                for x in blocks(some, contract.input, contract.numerics)
            ]
        return np.concatenate(found) if found else np.zeros(
            (0, contract.embedding), np.float32
        ), some.y.numpy()

    def network(self) -> FleetNet:
        """The network as it would classify now; the agents of a process share it, so it is this
        one's until a move.
        """
        with self._at_work(shown=True) as me:
            return me.stepper.net

    def scorers(self, round: int) -> Mapping[str, Scorer]:
        """How it would classify now."""
        with self._at_work(shown=True) as me:
            return self.workshop.recipe.scorers(self.workshop.turn(round, self.name), me, self.got)

    def checkpoint(self) -> dict[str, Parts]:
        """All that lasts: what this device must remember to go on later."""
        weights = Tensors({name: tensor.numpy() for name, tensor in self._lasting.weights.items()})
        trained_on = Tensors({"round": np.array([self._trained_on])})
        held: Parts = {"weights": weights, "trained_on": trained_on}
        past, rounds = self._lasting.past, self._lasting.rounds
        if past is not None:
            arrays = {name: tensor.numpy() for name, tensor in past.items()}
            held = {**held, "past": Tensors({**arrays, "rounds": np.array([rounds])})}
        return {"": held, **self._lasting.memory}

    def restore(self, saved: dict[str, Parts]) -> None:
        """Go on from a checkpoint; the newest state is to be received after it."""
        parts, have = saved.get("", {}), self._lasting.weights
        tensors, trained_on = parts.get("weights"), parts.get("trained_on")
        if not isinstance(tensors, Tensors) or tensors.arrays.keys() != have.keys():
            raise CheckpointError(
                f"agent {self.name}: the checkpoint's weights are of another network"
            )
        if not isinstance(trained_on, Tensors):
            raise CheckpointError(
                f"agent {self.name}: the checkpoint does not say what it was trained on"
            )
        weights = {
            name: torch.from_numpy(np.array(array)) for name, array in tensors.arrays.items()
        }
        standing = LearningState(weights, {name: held for name, held in saved.items() if name})
        before = parts.get("past")
        if isinstance(before, Tensors):
            past = {name: torch.from_numpy(np.array(before.arrays[name])) for name in weights}
            standing = replace(standing, past=past, rounds=int(before.arrays["rounds"][0]))
        self._lasting = self._ready = standing
        self._trained_on = self._seen_round = int(trained_on.arrays["round"][0])

    @contextmanager
    def _at_work(self, *, shown: bool = False) -> Iterator[LocalLearner]:
        stepper, over = self.workshop.stepper(self.backbone), self.workshop.contract.averaging
        _put(stepper.net, self._ready.averaged(over) if shown and over else self._ready.weights)
        samples, memory = len(self.data.train), dict(self._ready.memory)
        yield LocalLearner(
            self.name, self._classes, samples, memory, stepper, self.data, self.workshop
        )


def _put(net: FleetNet, weights: Mapping[str, Tensor]) -> None:
    state: dict[str, Tensor] = net.state_dict()
    with torch.no_grad():
        for name, tensor in state.items():
            tensor.copy_(weights[name])


def _standing(me: LocalLearner) -> LearningState:
    weights = {
        name: tensor.detach().to("cpu", copy=True)
        for name, tensor in me.stepper.net.state_dict().items()
    }
    return LearningState(weights, me.memory)
