"""The training process: the one place on a device where torch is loaded.

It answers orders over a pipe and writes what it trained into the store itself, checkpoint and
upload in one commit. It may be killed at any instant: what was committed is whole, and the rest is
done again with the same outcome.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import traceback
from collections.abc import Generator, Iterator
from dataclasses import replace
from hashlib import sha256
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from edge_agent.protocol.actions import Evaluate, Train
from edge_agent.protocol.events import RoundSpec
from edge_agent.records import Checkpoint, OutboxEntry, StoreError
from edge_agent.store import Store
from edge_agent.worker.exporter import Exporter
from edge_agent.worker.ipc import (
    Answer,
    DataSurvey,
    Job,
    Measured,
    Notice,
    Order,
    SurveyData,
    TaskDone,
    TaskFailed,
    Work,
)
from protofleet import registry, wire
from protofleet.contract import Contract
from protofleet.errors import FleetError, SettingError, TrainingDiverged, WireError
from protofleet.exchange.state import GlobalState
from protofleet.settings.fields import from_plain
from protofleet.values.prototypes import Parts
from protofleet.wire.codes import Scope

if TYPE_CHECKING:
    from edge_agent.data.source import Pool
    from edge_agent.training.agent import Agent
    from edge_agent.training.context import TrainingContext


class TooManyThreads(SettingError):
    """The fleet's contract wants more of the device than its owner gives."""

    code = "threads"


class Worker:
    """What the process holds between orders."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.store = Store(job.folder)
        self._pool: tuple[int, tuple[int, ...], Pool] | None = None
        self._bench: tuple[RoundSpec, TrainingContext] | None = None
        self._agent: Agent | None = None
        self._of: tuple[RoundSpec, int] | None = (
            None  # the plan and the version of the samples that the agent is made of
        )
        self._standing = (0, -1)
        self._exporter = Exporter(job)
        self._ready: tuple[str, int, str, bool] | None = (
            None  # the state the agent was made ready with
        )

    def carry_out(self, order: Order) -> Iterator[Answer]:
        """Do it, and say what came of it; every failure is an answer too."""
        task = order.task if isinstance(order, Work) else order
        try:
            yield from self._look() if isinstance(order, SurveyData) else self._work(order)
        except FleetError as error:
            self._forget()
            yield TaskFailed(task, str(error), error.code, _scope(error))
        except MemoryError:
            self._forget()
            yield TaskFailed(task, _too_large(self.job), "memory", Scope.ROUND)
        except Exception as error:
            self._forget()
            if "allocate memory" in str(error) or "bad_alloc" in str(error):
                yield TaskFailed(task, _too_large(self.job), "memory", Scope.ROUND)
                return
            traceback.print_exc()
            yield TaskFailed(
                task,
                f"{type(error).__name__}: {' '.join(str(error).split())[:300]}",
                "failed",
                Scope.AGAIN,
            )

    def _look(self) -> Iterator[Answer]:
        from edge_agent.data.source import survey

        found = survey(self.job.data, self.job.data_dir)
        yield DataSurvey(found.classes, found.samples)

    def _work(self, order: Work) -> Iterator[Answer]:
        began, task = time.monotonic(), order.task
        agent = yield from self._made(order)
        shared, own = self._states(task)
        ready = (task.run, task.base_round, task.base, task.own)
        if self._ready != ready:
            agent.receive(task.base_round, shared, own)
            self._ready = ready
            self._exporter.due(task.base_round)
        if isinstance(task, Evaluate) or task.evaluate:
            tallies = agent.evaluate(task.base_round)
            yield Measured(task.run, task.base_round, _plain(tallies))
        if isinstance(task, Train):
            parts = agent.work(task.round)
            if not agent.context.recipe.talks(agent.context.turn(task.round, agent.name)):
                parts = {}  # a round of local training only: the coordinator hears that it is done
            self._commit(task, agent, parts)
        yield TaskDone(
            task, time.monotonic() - began, _peak_mb(), agent.context.contract.numerics.device
        )

    def _made(self, order: Work) -> Generator[Answer, None, Agent]:
        """The device as the store has it: kept from order to order as long as nothing changed
        behind its back.
        """
        plan, of = order.task.spec, (order.task.spec, order.version)
        if (
            self._agent is not None
            and self._of == of
            and self._standing == self.store.standing(plan.run)
        ):
            return self._agent
        self._forget()
        contract = from_plain(Contract, plan.contract, "contract")
        most = self.job.limits.threads
        if most and contract.numerics.threads > most:
            raise TooManyThreads(
                f"the fleet trains with {contract.numerics.threads} threads, limits.threads is {most}"
            )
        from edge_agent.data.source import fit
        from edge_agent.networks import backbones
        from edge_agent.networks.torch_env import resolve_device
        from edge_agent.training.agent import Agent
        from edge_agent.training.batches import LocalData, SampleTensors
        from edge_agent.training.context import TrainingContext, settle
        from edge_agent.worker.limits import pace
        from protofleet.exchange.snapshot import unpack

        here = resolve_device(contract.numerics.device)
        contract = replace(contract, numerics=replace(contract.numerics, device=here))
        fitted = fit(self._read(order.version, contract), contract)
        if fitted.left_out:
            named = ", ".join(
                f"{name} ({count} samples)" for name, count in fitted.left_out.items()
            )
            yield Notice(f"left out, because the fleet's contract has no such class: {named}")
        if self._bench is None or self._bench[0] != plan:
            settle(contract.numerics)
            pace(self.job.limits.cpu, contract.numerics.threads)
            recipe = registry.load(plan.method)
            self.store.note(**{f"plan/{plan.run}": json.dumps(vars(plan))})
            self._bench = (
                plan,
                TrainingContext(contract, recipe, from_plain(recipe.hyper, plan.hyper, "hyper")),
            )
        splits = (fitted.train, fitted.validation, fitted.test)
        data = LocalData(*(SampleTensors.of(s.x, s.y, contract.input) for s in splits))
        wanted = self._bench[1].recipe.traits.backbone
        backbone = self.job.data.backbone or wanted or backbones.default_for(contract.input)
        agent = Agent(self.job.agent, backbone, data, self._bench[1])
        saved = self.store.checkpoint(plan.run)
        if saved is not None:
            agent.restore(unpack(saved.body))
        self._agent, self._of = agent, of
        self._standing = (0, -1) if saved is None else (saved.round, saved.base_round)
        return agent

    def _read(self, version: int, contract: Contract) -> Pool:
        from edge_agent.data.source import read

        if self._pool is None or self._pool[:2] != (version, contract.input.shape):
            self._pool = (
                version,
                contract.input.shape,
                read(self.job.data, self.job.data_dir, contract.input),
            )
        return self._pool[2]

    def _states(self, task: Train | Evaluate) -> tuple[Parts, Parts]:
        found: list[Parts] = [{}, {}]
        for place, kind in enumerate(("global", "own") if task.own else ("global",)):
            message = self.store.held(kind, task.run, task.base_round, task.base)
            if message is None:
                raise StoreError(f"the {kind} state of round {task.base_round} is no longer here")
            found[place] = wire.decode(message).body
        if GlobalState(found[0]).base != task.base:
            raise WireError(f"the shared state of round {task.base_round} is not the one announced")
        return found[0], found[1]

    def _commit(self, task: Train, agent: Agent, parts: Parts) -> None:
        from protofleet.exchange.snapshot import pack

        context = agent.context
        body = wire.encode_parts(parts, context.contract.wire, context.recipe.precision)
        boot = self.job.boot
        upload = OutboxEntry(
            task.run,
            task.round,
            task.base,
            task.spec.method,
            sha256(body).hexdigest(),
            body,
            boot,
            task.round,
        )
        checkpoint = Checkpoint(task.round, task.base_round, task.base, pack(agent.checkpoint()))
        self.store.commit_round(boot, task.run, checkpoint, upload, time.time())
        self._standing, self._ready = (task.round, task.base_round), None

    def _forget(self) -> None:
        """Make the device anew from the store: what it has in memory may be ahead of what is on
        disk.
        """
        self._agent, self._ready = None, None


def _plain(tallies: Any) -> dict[str, dict[str, tuple[int, int]]]:
    return {
        split: {name: (int(t.correct.sum()), int(t.total.sum())) for name, t in found.items()}
        for split, found in tallies.items()
        if found
    }


def _scope(error: FleetError) -> Scope:
    if isinstance(error, (TrainingDiverged, WireError)):
        return Scope.ROUND
    return Scope.AGAIN if isinstance(error, StoreError) else Scope.DEVICE


def _too_large(job: Job) -> str:
    cap = f" within limits.memory_mb = {job.limits.memory_mb}" if job.limits.memory_mb else ""
    return f"training does not fit into memory{cap}"


def _peak_mb() -> int:
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size // (1 << 20 if sys.platform == "darwin" else 1 << 10)


def serve(pipe: Connection) -> None:
    """Answer orders until the daemon hangs up."""
    from edge_agent.worker.limits import confine

    job: Job = pipe.recv()
    confine(job.limits)
    worker: Worker | None = None
    while True:
        order = pipe.recv()
        task = order.task if isinstance(order, Work) else order
        try:
            worker = worker or Worker(job)
        except FleetError as error:
            pipe.send(TaskFailed(task, str(error), error.code, Scope.AGAIN))
            continue
        for answer in worker.carry_out(order):
            pipe.send(answer)


def main() -> None:
    """`python -m edge_agent.worker.runner FD`, started by the daemon."""
    from edge_agent.worker.limits import die_with_parent

    die_with_parent(int(sys.argv[2]))
    try:
        serve(Connection(int(sys.argv[1])))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        sys.exit(0)


if __name__ == "__main__":
    main()
