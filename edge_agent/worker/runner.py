"""The training process: the one place on a device where torch is loaded.

It answers orders over a pipe and writes what it trained into the store itself, checkpoint and
upload in one commit. It may be killed at any instant: what was committed is whole, and the rest is
done again with the same outcome.
"""

# Theory of operation
#
# The daemon sends one order at a time through a pipe; the process answers, and the last answer ends
# the order:
#
#   order              answers
#   SurveyData         DataSurvey
#   Work(Evaluate)     [Notice] Measured TaskDone
#   Work(Train)        [Notice] [Measured] ... commit to the store ... TaskDone
#   any                what came until it failed, then TaskFailed
#   any                what came until it died, then WorkerEnded (said by the daemon's own thread)
#
# Only the store counts. A round's outcome is one transaction: checkpoint and upload, or neither.
# TaskDone is no more than a hint to look there, and after WorkerEnded the daemon asks the store,
# because a process may die between its commit and its word of it. So it can be killed at any
# instant: by the kernel for its memory, by a daemon that ends or was idle too long, with the
# machine. What was not committed is trained again, and since a training's outcome follows from the
# checkpoint, the state, the round and named seeds (see training/agent.py), in the same bytes.
#
# Everything in memory is a cache of the store and the samples, kept from order to order because
# loading torch and data takes longer than a small round:
#
#   _pool         samples as they are read        until they change (`version`) or their shape does
#   _context      networks and compiled steps     until the fleet's specification changes
#   _agent        the device                      until either does, the store's checkpoint is not
#                                                 the one it stands at, or anything failed
#   _received     the state it has taken in       as long as the agent, and until it has trained
#
# After a failure the agent is thrown away whatever it was: it may have trained and then failed to
# commit, and would be ahead of the store.
#
# A failure says how far it reaches, by which the machine of protocol/ decides:
#
#   TrainingDiverged, WireError, no memory     this round       the next may do better
#   StoreError, whatever nobody foresaw        again            a few tries of the same order
#   any other FleetError                       this device      no more for this coordinator
#
# Two processes may live at once for a moment, that of a daemon which is gone and that of the next
# one. The store settles it: a commit carries the boot of the daemon that asked for it, and is
# refused when another has taken over, or when a checkpoint of that round is already there.

from __future__ import annotations

import json
import resource
import sys
import time
import traceback
from collections.abc import Generator, Iterator, Mapping
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
from protofleet.budget.private import of_contract
from protofleet.contract import Contract
from protofleet.errors import FleetError, SettingError, TrainingDiverged, WireError
from protofleet.exchange.snapshot import pack, unpack
from protofleet.exchange.state import GlobalState
from protofleet.recipe import Recipe, Turn
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
        self._context: tuple[RoundSpec, TrainingContext] | None = None
        self._agent: Agent | None = None
        # The specification and the version of the samples that the agent was made of, the
        # checkpoint it stands at, and the state it has taken in.
        self._made_of: tuple[RoundSpec, int] | None = None
        self._standing = (0, -1)
        self._received: tuple[str, int, str, bool] | None = None
        self._exporter = Exporter(job)

    def carry_out(self, order: Order) -> Iterator[Answer]:
        """Do it, and say what came of it; every failure is an answer too."""
        task = order.task if isinstance(order, Work) else order
        try:
            yield from self._survey() if isinstance(order, SurveyData) else self._work(order)
        except FleetError as error:
            self._forget()
            yield TaskFailed(task, str(error), error.code, _scope(error))
        except MemoryError:
            self._forget()
            yield TaskFailed(task, _too_large(self.job), "memory", Scope.ROUND)
        except Exception as error:
            self._forget()
            # torch has no class of its own for this: it raises RuntimeError with these words.
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

    def _survey(self) -> Iterator[Answer]:
        from edge_agent.data.source import survey

        samples = survey(self.job.data, self.job.data_dir)
        yield DataSurvey(samples.classes, samples.samples)

    def _work(self, order: Work) -> Iterator[Answer]:
        began, task = time.monotonic(), order.task
        if task.spec.by_features:
            yield from self._seen(task)
            yield TaskDone(task, time.monotonic() - began, _peak_mb())
            return
        agent = yield from self._agent_for(order)
        shared, own = self._states(task)
        state = (task.run, task.base_round, task.base, task.own)
        if self._received != state:
            agent.receive(task.base_round, shared, own)
            self._received = state
            self._exporter.due(task.base_round)
        if isinstance(task, Evaluate) or task.evaluate:
            tallies = agent.evaluate(task.base_round)
            yield Measured(task.run, task.base_round, _plain(tallies))
        if isinstance(task, Train):
            parts = agent.work(task.round)
            if not agent.context.recipe.talks(agent.context.turn(task.round, agent.name)):
                parts = {}  # a round of local training only: the coordinator hears that it is done
            context = agent.context
            fleet = context.contract, context.recipe
            self._commit(task, fleet, pack(agent.checkpoint()), parts)
        yield TaskDone(
            task, time.monotonic() - began, _peak_mb(), agent.context.contract.numerics.device
        )

    def _seen(self, task: Train | Evaluate) -> Iterator[Answer]:
        """A round that is about the fleet's bundle: this device's part of it."""
        from edge_agent.contributing import answering

        if isinstance(task, Evaluate):
            return  # there is no network to be measured
        contract, recipe, hyper = self._agreed(task.spec)
        shared, own = self._states(task)
        me, others = answering.learner(
            self.job.agent,
            self.job.folder / "fleet.pfb",
            self.job.data,
            self.job.data_dir,
            contract.classes,
        )
        if others:
            yield _left_out(others)
        turn = Turn(contract, hyper, task.round, self.job.agent)
        parts = recipe.summarise(turn, me, {**shared, **own}) if recipe.talks(turn) else {}
        self._commit(task, (contract, recipe), pack({}), parts)

    def _agreed(self, spec: RoundSpec) -> tuple[Contract, Recipe[Any], Any]:
        """The fleet's contract, its method as that has it, and the settings."""
        contract = from_plain(Contract, spec.contract, "contract")
        recipe = registry.load(spec.method)
        hyper = from_plain(recipe.hyper, spec.hyper, "hyper")
        under = of_contract(recipe, contract, hyper)
        return contract, recipe if under is None else under.recipe, hyper

    def _agent_for(self, order: Work) -> Generator[Answer, None, Agent]:
        """The device as the store has it: kept from order to order as long as nothing changed
        behind its back.
        """
        spec = order.task.spec
        if (
            self._agent is not None
            and self._made_of == (spec, order.version)
            and self._standing == self.store.standing(spec.run)
        ):
            return self._agent
        self._forget()
        contract, recipe, hyper = self._agreed(spec)
        most = self.job.limits.threads
        if most and contract.numerics.threads > most:
            raise TooManyThreads(
                f"the fleet trains with {contract.numerics.threads} threads, "
                f"limits.threads is {most}"
            )
        from edge_agent.data.source import fit
        from edge_agent.networks import backbones
        from edge_agent.networks.torch_env import resolve_device
        from edge_agent.training.agent import Agent
        from edge_agent.training.batches import LocalData, SampleTensors
        from edge_agent.training.context import TrainingContext, settle
        from edge_agent.worker.limits import pace

        # `auto` is resolved per device: the contract that the store keeps still says auto.
        device = resolve_device(contract.numerics.device)
        contract = replace(contract, numerics=replace(contract.numerics, device=device))
        fitted = fit(self._read(order.version, contract), contract)
        if fitted.left_out:
            yield _left_out(fitted.left_out)
        if self._context is None or self._context[0] != spec:
            settle(contract.numerics)
            pace(self.job.limits.cpu, contract.numerics.threads)
            # For `edge-agent export`, which has the store and no coordinator to ask.
            self.store.note(**{f"plan/{spec.run}": json.dumps(vars(spec))})
            self._context = (spec, TrainingContext(contract, recipe, hyper))
        splits = (fitted.train, fitted.validation, fitted.test)
        data = LocalData(*(SampleTensors.of(s.x, s.y, contract.input) for s in splits))
        context = self._context[1]
        of_method = context.recipe.traits.backbone
        backbone = backbones.of_device(self.job.data.backbone, of_method, contract.input)
        agent = Agent(self.job.agent, backbone, data, context)
        saved = self.store.checkpoint(spec.run)
        if saved is not None:
            agent.restore(unpack(saved.body))
        self._agent, self._made_of = agent, (spec, order.version)
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
        shared = self._state("global", task)
        own = self._state("own", task) if task.own else {}
        if GlobalState(shared).base != task.base:
            raise WireError(f"the shared state of round {task.base_round} is not the one announced")
        return shared, own

    def _state(self, kind: str, task: Train | Evaluate) -> Parts:
        message = self.store.held(kind, task.run, task.base_round, task.base)
        if message is None:
            raise StoreError(f"the {kind} state of round {task.base_round} is no longer here")
        parts: Parts = wire.decode(message).body
        return parts

    def _commit(
        self, task: Train, fleet: tuple[Contract, Recipe[Any]], memory: bytes, parts: Parts
    ) -> None:
        contract, recipe = fleet
        body = wire.encode_parts(parts, contract.wire, recipe.precision)
        boot = self.job.boot
        upload = OutboxEntry(
            run=task.run,
            round=task.round,
            base=task.base,
            method=task.spec.method,
            digest=sha256(body).hexdigest(),
            body=body,
            boot=boot,
            seq=task.round,
        )
        checkpoint = Checkpoint(task.round, task.base_round, task.base, memory)
        self.store.commit_round(boot, task.run, checkpoint, upload, time.time())
        self._standing, self._received = (task.round, task.base_round), None

    def _forget(self) -> None:
        """Make the device anew from the store: what it has in memory may be ahead of what is on
        disk.
        """
        self._agent, self._received = None, None


def _left_out(samples: Mapping[str, int]) -> Notice:
    named = ", ".join(f"{name} ({count} samples)" for name, count in samples.items())
    return Notice(f"left out, because the fleet's contract has no such class: {named}")


def _plain(tallies: Any) -> dict[str, dict[str, tuple[int, int]]]:
    return {
        split: {name: (int(t.correct.sum()), int(t.total.sum())) for name, t in by_name.items()}
        for split, by_name in tallies.items()
        if by_name
    }


def _scope(error: FleetError) -> Scope:
    if isinstance(error, (TrainingDiverged, WireError)):
        return Scope.ROUND
    return Scope.AGAIN if isinstance(error, StoreError) else Scope.DEVICE


def _too_large(job: Job) -> str:
    cap = f" within limits.memory_mb = {job.limits.memory_mb}" if job.limits.memory_mb else ""
    return f"training does not fit into memory{cap}"


def _peak_mb() -> int:
    # Bytes on macOS, kilobytes on Linux.
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size // (1 << 20 if sys.platform == "darwin" else 1 << 10)


def serve(pipe: Connection) -> None:
    """Answer orders until the daemon hangs up."""
    from edge_agent.worker.limits import confine

    job: Job = pipe.recv()
    # Before anything large is loaded: the cap counts what is there already.
    confine(job.limits)
    worker: Worker | None = None
    while True:
        order = pipe.recv()
        task = order.task if isinstance(order, Work) else order
        # With the first order, so that a store that cannot be opened is an answer to somebody.
        try:
            worker = worker or Worker(job)
        except FleetError as error:
            pipe.send(TaskFailed(task, str(error), error.code, Scope.AGAIN))
            continue
        for answer in worker.carry_out(order):
            pipe.send(answer)


def main() -> None:
    """`python -m edge_agent.worker.runner FD`, started by the daemon."""
    from protofleet.util.processes import die_with_parent

    die_with_parent(int(sys.argv[2]))
    try:
        serve(Connection(int(sys.argv[1])))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        sys.exit(0)


if __name__ == "__main__":
    main()
