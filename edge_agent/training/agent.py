"""A device in a run: it takes what comes back, trains, summarises and evaluates, by the moves of
its recipe.

The lab holds many of these in a process and the daemon one; both drive it by the same four calls.
"""

# Theory of operation
#
# An agent is a value between two moves and a network during one. The value is held twice:
#
#   committed   what the last `work` ended in: weights as trained, the method's memory, the moving
#               average. A checkpoint is this, all of it and no more.
#   prepared    committed, with the newest state taken in by the recipe's `receive` and `adapt`.
#
#   call                         starts from            writes
#   receive(round, state)        committed              prepared
#   work(round)                  prepared               committed = prepared = its outcome
#   evaluate, embed, network,    prepared (averaged)    nothing
#   scorers
#   checkpoint                   committed              nothing
#   restore                      the checkpoint         committed = prepared
#
# One truth: what a device uploads depends on its committed value, the state it received last, the
# round and named seeds, and on nothing else. Not on how many states it saw in between (a device
# that slept through three rounds is the same device as one that evaluated each of them), not on
# the other agents of its process, and not on whether it was restored in between. That is why
# `receive` starts from committed and not from prepared: a method that loads weights or trains on
# arrival would otherwise carry the traces of states that it never trained on, and laboratory and
# fleet, which show a device different numbers of states, would end in different hashes.
#
# A state is known by the round it came out of (0: before the first). `trained_on` remembers which
# one the last `work` started from. The same state comes again after a round without exchange and
# after a restart; taking it in a second time would undo the training done on it, so `receive`
# then only notes what was said.
#
# Traps:
# - The network is the context's and shared by all agents of one backbone. Each move copies an
#   agent's weights in, and what is to last is copied out (to the CPU, never a view). Between
#   moves the network's weights are nobody's.
# - With a contract that averages, training goes on from the weights as trained, while all that
#   others see is computed with the average: summaries, evaluation, bundles. Uploaded weights are
#   the exception (`LocalLearner.trained`): they are those that were trained.
# - `memory` is copied per move, one level deep. That is enough because the values in it are
#   frozen: a recipe replaces entries and cannot change one in place.

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edge_agent.networks.net import FleetNet
from edge_agent.training.batches import LocalData, SampleTensors, blocks
from edge_agent.training.context import TrainingContext
from edge_agent.training.evaluate import Tallies, evaluate
from edge_agent.training.phases import run_phases, way_out
from edge_agent.training.step import Stepper
from protofleet.errors import CheckpointError, DataError, TrainingDiverged
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
    context: TrainingContext
    # The weights as trained, while the network shows averaged ones.
    trained: Mapping[str, Tensor] | None = None
    _features: dict[bool, Features] = field(default_factory=dict)

    def features(self, *, low: bool = False) -> Features:
        """A clean pass over the training data; made once per state of the weights. Low-level
        features on request.
        """
        if low not in self._features:
            self._features[low] = self._seen(self.data.train, low=low)
        return self._features[low]

    def folds(self, parts: int) -> Ints:
        """Which of so many parts each training sample is in, by what is in it: the same one
        wherever it lies and whatever comes beside it, and copies of it are in no other.
        """
        x = self.data.train.x.numpy()
        return np.array([crc32(row.tobytes()) % parts for row in x], np.int64)

    def validation(self) -> Features:
        """The same over the samples that the device keeps for validation; a method that needs some
        is told where there are none.
        """
        if not len(self.data.validation):
            raise DataError(
                f"agent {self.agent} has no validation samples, and this method learns from them",
                "give it some (--validation 0.1)",
            )
        return self._seen(self.data.validation)

    def _seen(self, samples: SampleTensors, *, low: bool = False) -> Features:
        net, contract = self.stepper.net, self.context.contract
        net.eval()
        # Low-level features of large images are large: without need they are not even gathered.
        levels = slice(0 if low else 1, None)
        with torch.inference_mode():
            passes = [net(x)[levels] for x in blocks(samples, contract.input, contract.numerics)]
        *u, z, logits = (torch.cat(level).cpu().numpy() for level in zip(*passes, strict=True))
        if not np.isfinite(z).all():
            # Weights may be finite and what they compute not. A summary would say which of its
            # vectors; why, and what to do about it, is known here.
            raise TrainingDiverged(
                f"agent {self.agent}: its network answers in numbers that are not finite",
                way_out(net, len(self.data.train), contract.training),
            )
        return Features(z, logits, samples.y.numpy(), u[0] if low else None)

    def weights(self, *modules: str) -> Tensors:
        """Weights and running statistics of these modules; of all when none is named."""
        shown = self.stepper.net.weights(*modules)
        return Tensors({k: (self.trained or shown)[k].detach().cpu().numpy() for k in shown})

    def load(self, weights: Tensors) -> None:
        """Take these tensors in, the rest stays."""
        own = self.stepper.net.weights()
        with torch.no_grad():
            for name, array in weights.arrays.items():
                # A copy, because values are read-only and torch knows no such tensors.
                own[name].copy_(torch.from_numpy(np.array(array)))
        self.changed()

    def changed(self) -> None:
        """The weights moved: what was seen through them is no longer true."""
        self._features.clear()


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
        # An exponential average of span n gives the newest 2/(n + 1). The span grows with the
        # rounds up to `over`, so that the first weights do not weigh on an average of many.
        share = 2 / (1 + min(over, self.rounds + 1))
        return {
            name: torch.lerp(self.past[name], now, share) if now.is_floating_point() else now
            for name, now in self.weights.items()
        }


class Agent:
    """One device's state between rounds, and its moves."""

    def __init__(self, name: str, backbone: str, data: LocalData, context: TrainingContext) -> None:
        self.name = name
        self.backbone = backbone
        self.data = data
        self.context = context
        self._received: Parts = {}
        # States by the round that they came out of; -1 is before any, since 0 is one, too.
        self._received_round = -1
        self._trained_on = -1
        self._classes = np.unique(data.train.y.numpy())
        self._committed = LearningState(context.initial_weights(backbone, name), {})
        self._prepared = self._committed

    def receive(self, round: int, shared: Parts, own: Parts) -> None:
        """Make ready to train on the state that this round ended in; where the method does, train
        on arrival.
        """
        self._received, self._received_round = {**shared, **own}, round
        if round <= self._trained_on:
            return  # seen again: after a round without exchange, or a restart
        turn, recipe = self.context.turn(round, self.name), self.context.recipe
        self._prepared = before = self._committed
        if recipe.receive is take_nothing and recipe.adapt is no_phases:
            return  # most methods: weights need not go through the network to stay what they are
        with self._in_network() as learner:
            recipe.receive(turn, learner, self._received)
            phases = recipe.adapt(turn, learner, self._received)
            if phases:
                run_phases(learner.stepper, phases, self.data.train, turn, "adapt")
            # The average runs over trained weights alone: what was received is no round of ours.
            self._prepared = replace(_state_of(learner), past=before.past, rounds=before.rounds)

    def work(self, round: int) -> Parts:
        """Train for this round and say what is to be sent."""
        turn, recipe = self.context.turn(round, self.name), self.context.recipe
        with self._in_network() as learner:
            phases = recipe.train(turn, learner, self._received)
            run_phases(learner.stepper, phases, self.data.train, turn, "train")
            learner.changed()
            outcome = _state_of(learner)
            over = self.context.contract.averaging
            if over:
                outcome = replace(
                    outcome, past=self._prepared.averaged(over), rounds=self._prepared.rounds + 1
                )
                _load(learner.stepper.net, outcome.averaged(over))
                learner.trained = outcome.weights
            # Before the outcome is committed: a summary that fails must leave the device as it was.
            # Its memory is the learner's, so what the summary remembers is part of it.
            parts = recipe.summarise(turn, learner, self._received)
            self._committed = self._prepared = outcome
        self._trained_on = self._received_round
        return parts

    def evaluate(self, round: int, common: SampleTensors | None = None) -> Tallies:
        """How the device classifies now, on its validation and test samples, and on those that are
        common to all where there are some; it leaves no trace.
        """
        turn, recipe = self.context.turn(round, self.name), self.context.recipe
        with self._in_network(averaged=True) as learner:
            scorers = recipe.scorers(turn, learner, self._received)
            splits = {"validation": self.data.validation, "test": self.data.test}
            splits |= {} if common is None else {"common": common}
            return evaluate(
                learner.stepper.net, scorers, splits, self._classes, self.context.contract
            )

    def embed(self, most: int) -> tuple[NDArray[np.float32], Ints]:
        """Embeddings of some test samples and their labels: for pictures."""
        contract, test = self.context.contract, self.data.test
        # Spread over all of them: the first may be of one class.
        rows = torch.arange(min(most, len(test))) * len(test) // max(min(most, len(test)), 1)
        samples = SampleTensors(test.x[rows], test.y[rows])
        with self._in_network(averaged=True) as learner, torch.inference_mode():
            net = learner.stepper.net.eval()
            embeddings = [
                net(x)[1].cpu().numpy() for x in blocks(samples, contract.input, contract.numerics)
            ]
        empty = np.zeros((0, contract.embedding), np.float32)
        return np.concatenate(embeddings) if embeddings else empty, samples.y.numpy()

    def network(self) -> FleetNet:
        """The network as it would classify now; the agents of a process share it, so it is this
        one's until a move.
        """
        with self._in_network(averaged=True) as learner:
            return learner.stepper.net

    def scorers(self, round: int) -> Mapping[str, Scorer]:
        """How it would classify now."""
        turn = self.context.turn(round, self.name)
        with self._in_network(averaged=True) as learner:
            return self.context.recipe.scorers(turn, learner, self._received)

    def checkpoint(self) -> dict[str, Parts]:
        """All that lasts: what this device must remember to go on later."""
        state = self._committed
        weights = Tensors({name: tensor.numpy() for name, tensor in state.weights.items()})
        trained_on = Tensors({"round": np.array([self._trained_on])})
        parts: Parts = {"weights": weights, "trained_on": trained_on}
        if state.past is not None:
            arrays = {name: tensor.numpy() for name, tensor in state.past.items()}
            parts = {**parts, "past": Tensors({**arrays, "rounds": np.array([state.rounds])})}
        # A method's memory has names that are not empty: the empty one is free for the agent's own.
        return {"": parts, **state.memory}

    def restore(self, saved: dict[str, Parts]) -> None:
        """Go on from a checkpoint; the newest state is to be received after it."""
        parts, own = saved.get("", {}), self._committed.weights
        tensors, trained_on = parts.get("weights"), parts.get("trained_on")
        if not isinstance(tensors, Tensors) or tensors.arrays.keys() != own.keys():
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
        state = LearningState(weights, {name: memory for name, memory in saved.items() if name})
        before = parts.get("past")
        if isinstance(before, Tensors):
            past = {name: torch.from_numpy(np.array(before.arrays[name])) for name in weights}
            state = replace(state, past=past, rounds=int(before.arrays["rounds"][0]))
        self._committed = self._prepared = state
        self._trained_on = self._received_round = int(trained_on.arrays["round"][0])

    @contextmanager
    def _in_network(self, *, averaged: bool = False) -> Iterator[LocalLearner]:
        """The prepared weights in the shared network for one move; `averaged`: as others see
        them.
        """
        stepper, over = self.context.stepper(self.backbone), self.context.contract.averaging
        state = self._prepared
        _load(stepper.net, state.averaged(over) if averaged and over else state.weights)
        samples, memory = len(self.data.train), dict(state.memory)
        yield LocalLearner(
            self.name, self._classes, samples, memory, stepper, self.data, self.context
        )


def _load(net: FleetNet, weights: Mapping[str, Tensor]) -> None:
    # In place: the resident network keeps its memory layout, by which compiled steps are chosen.
    state: dict[str, Tensor] = net.state_dict()
    with torch.no_grad():
        for name, tensor in state.items():
            tensor.copy_(weights[name])


def _state_of(learner: LocalLearner) -> LearningState:
    weights = {
        name: tensor.detach().to("cpu", copy=True)
        for name, tensor in learner.stepper.net.state_dict().items()
    }
    return LearningState(weights, learner.memory)
