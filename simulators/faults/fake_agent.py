"""A device whose training is a hash: real link, store and protocol, and an upload that depends on
its whole history.

What a device knows is a chain: one link for every round, made of what it knew, the round, and the
state it was given. Its upload is drawn from that. So a round that is trained twice, on a wrong
state, or from a lost checkpoint shows in the hash of every state that follows, and costs no
training.
"""

# A hash stands in for training because of what it cannot forgive. Two trainings from nearly the
# same state give nearly the same upload, and a fleet that trained a round twice would look as
# healthy as before. Of a hash nothing is near: one byte of difference in what a device was given,
# in any round so far, and every later upload is another.
#
# Everything else is real: link, store, protocol and codec are the daemon's own. The chain's last
# link is the checkpoint's body, so it is committed in one transaction with the upload that was
# drawn from it, as weights are.

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import numpy as np

from edge_agent.protocol.actions import Train
from edge_agent.protocol.events import RoundSpec
from edge_agent.records import Checkpoint, OutboxEntry, StoreError
from edge_agent.store import Store
from edge_agent.worker.ipc import (
    Answer,
    DataSurvey,
    Order,
    SurveyData,
    TaskDone,
    TaskFailed,
    Work,
)
from protofleet import registry, wire
from protofleet.budget.clipping import POINT, clipped
from protofleet.contract import Contract
from protofleet.errors import FleetError
from protofleet.exchange.state import GlobalState
from protofleet.recipe import Recipe, Turn
from protofleet.settings.fields import from_plain
from protofleet.values.prototypes import Parts, Prototypes
from protofleet.wire.codes import Scope

Draw = Callable[[np.random.Generator], Parts]


def prototypes(contract: Contract) -> Draw:
    """An upload of prototypes for about half the classes."""

    def draw(rng: np.random.Generator) -> Parts:
        classes = np.flatnonzero(rng.random(contract.n_classes) < 0.6)
        vectors = rng.standard_normal((len(classes), contract.embedding), dtype=np.float32)
        if contract.budget is not None:  # as long as agreed, however the wire rounds it
            steps = clipped(vectors, contract.budget.norm * (1 - 2.0**-10))
            vectors = (steps * 2.0**-POINT).astype(np.float32)
        return {"prototypes": Prototypes(classes, vectors, rng.integers(1, 100, len(classes)))}

    return draw


class FakeAgent:
    """The device as a schedule drives it."""

    def __init__(self, agent: str, draw: Draw, history: bytes = b"") -> None:
        self.agent, self.draw, self.history = agent, draw, history
        self._given = b""

    def receive(self, round: int, shared: Parts, own: Parts) -> None:
        """The state to learn from next."""
        self._given = f"{round} {wire.digest(shared)} {wire.digest(own)}".encode()

    def work(self, round: int) -> Parts:
        """One more link of the chain, and what is drawn from it."""
        self.history = sha256(
            b"|".join([self.history, self.agent.encode(), b"%d" % round, self._given])
        ).digest()
        return self.draw(np.random.default_rng(list(self.history)))


class FakeTraining:
    """Carries out a daemon's orders at once, where a supervisor would start a training process.

    `draw_of` says what this fleet's uploads look like.
    """

    pid = None

    def __init__(
        self,
        agent: str,
        boot: str,
        store: Store,
        wake: Callable[[], None],
        draw_of: Callable[[Contract], Draw],
    ) -> None:
        self.agent, self.boot, self.store = agent, boot, store
        self._wake, self._draw_of = wake, draw_of
        self._answers: list[Answer] = []
        self._read: tuple[RoundSpec, Contract, Recipe[Any], Any] | None = None

    def order(self, order: Order) -> None:
        """Done before this returns."""
        self._answers.append(
            DataSurvey((), 1) if isinstance(order, SurveyData) else self._carried_out(order)
        )
        self._wake()

    def answers(self) -> list[Answer]:
        """What came of the orders since the last call."""
        answers, self._answers = self._answers, []
        return answers

    def dismiss(self) -> None:
        """There is nothing to end."""

    def _carried_out(self, order: Work) -> Answer:
        task = order.task
        try:
            if isinstance(task, Train):
                self._train(task)
            return TaskDone(task, 0.0, 0)
        except FleetError as error:
            return TaskFailed(
                task,
                str(error),
                error.code,
                Scope.AGAIN if isinstance(error, StoreError) else Scope.ROUND,
            )

    def _train(self, task: Train) -> None:
        contract, recipe, hyper = self._agreed(task.spec)
        shared, own = self._state("global", task), self._state("own", task) if task.own else {}
        if GlobalState(shared).base != task.base:
            raise FleetError(f"the state of round {task.base_round} is not the one announced")
        before = self.store.checkpoint(task.run)
        device = FakeAgent(
            self.agent, self._draw_of(contract), b"" if before is None else before.body
        )
        device.receive(task.base_round, shared, own)
        parts = device.work(task.round)
        if not recipe.talks(Turn(contract, hyper, task.round)):
            parts = {}
        body = wire.encode_parts(parts, contract.wire, recipe.precision)
        digest = sha256(body).hexdigest()
        upload = OutboxEntry(
            task.run, task.round, task.base, task.spec.method, digest, body, self.boot, task.round
        )
        checkpoint = Checkpoint(task.round, task.base_round, task.base, device.history)
        self.store.commit_round(self.boot, task.run, checkpoint, upload, float(task.round))

    def _state(self, kind: str, task: Train) -> Parts:
        message = self.store.held(kind, task.run, task.base_round, task.base)
        if message is None:
            raise StoreError(f"the {kind} state of round {task.base_round} is not here")
        parts: Parts = wire.decode(message).body
        return parts

    def _agreed(self, spec: RoundSpec) -> tuple[Contract, Recipe[Any], Any]:
        if self._read is None or self._read[0] != spec:
            recipe = registry.load(spec.method)
            contract = from_plain(Contract, spec.contract, "contract")
            self._read = (spec, contract, recipe, from_plain(recipe.hyper, spec.hyper, "hyper"))
        return self._read[1:]
