"""The devices of a run and the processes they live in: all in this one, or dealt out to several.

A device stays in its process for the whole run and computes the same there as anywhere, so the
number of workers changes how long a run takes and nothing else.
"""

# Theory of operation
#
# How many workers there are must not change a single bit of the outcome. That holds because
#
# - whatever a device draws comes from the fleet's seed, the round and its own name, never from a
#   generator that it shares with its neighbours, and
# - every process settles torch and numpy alike (`settle`): threads, determinism, the allocator.
#
# The processes are spawned, not forked: torch's threads do not survive a fork. A spawned worker
# prepares the whole run anew from its configuration. Reading a data set twice costs less than
# sending it through a pipe, and both come to the same, because `prepare` depends on nothing else.
# What has no name (a program's own arrays, network, recipe) is sent with it.
#
# The pipe carries one kind of exchange, always begun by the laboratory (a cluster's worker is
# given the same orders, and has the same answers):
#
#     laboratory sends          worker answers
#     (named, method, *others)  what `Here.method(*others, **named)` returns
#                               FleetError          the device's own complaint, raised as it is
#                               RuntimeError        anything else, its traceback as its words
#     closes the pipe           ends
#
# 1. An order goes to all workers before any answer is waited for: so they work side by side.
# 2. All answers are read before an error is raised. An answer left in its pipe would be taken for
#    that to the next order.
# 3. A worker whose preparation failed says so in answer to its first order, and not before: until
#    then nobody reads.
# 4. A worker that dies (most often for want of memory) is an end of file, and named as that.
#
# What a worker is made of, and where, is `LabWorker`'s matter: a process here (`Piped`), or one of
# a cluster (`simulators/cluster`). Where a command's runs go on is its `LabEngine`.

from __future__ import annotations

import multiprocessing
import pickle
import resource
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from edge_agent.training.agent import Agent
from edge_agent.training.batches import SampleTensors
from edge_agent.training.context import settle
from edge_agent.training.evaluate import Tallies
from protofleet import mistakes, wire
from protofleet.errors import FleetError, UsageError
from protofleet.exchange.state import GlobalState
from protofleet.recipe import Turn
from protofleet.values.prototypes import Ints, Parts
from simulators.run.config import LabConfig
from simulators.run.partitions import Shard
from simulators.run.setup import RUN_ID, Setup, Supplied, prepare

T = TypeVar("T")
Embedded = tuple[NDArray[np.float32], Ints]


class Crew(Protocol):
    """What the laboratory asks of its devices."""

    def receive(self, round: int, state: GlobalState) -> None: ...
    def evaluate(self, round: int, *, common: bool = False) -> dict[str, Tallies]: ...
    def work(self, round: int, agents: Sequence[str]) -> dict[str, bytes]: ...
    def embed(self, most: int) -> dict[str, Embedded]: ...
    def checkpoint(self) -> dict[str, dict[str, Parts]]: ...
    def restore(self, saved: Mapping[str, dict[str, Parts]]) -> None: ...
    def peak_rss(self) -> int: ...
    def close(self) -> None: ...


class Here:
    """Devices in this process."""

    def __init__(self, setup: Setup, agents: Sequence[str]) -> None:
        settle(setup.contract.numerics)
        self.setup = setup
        context = setup.context()
        chosen = [shard for shard in setup.partition.shards if shard.agent in set(agents)]
        self.base = GlobalState().base
        self.agents: dict[str, Agent] = {
            shard.agent: setup.agent(shard, context) for shard in chosen
        }

    def receive(self, round: int, state: GlobalState) -> None:
        """Give every device the state."""
        self.base = state.base
        for name, agent in self.agents.items():
            agent.receive(round, state.shared, state.for_agent(name))

    def evaluate(self, round: int, *, common: bool = False) -> dict[str, Tallies]:
        """How every device classifies with what it was given; with `common` on one test set that
        is everybody's, too.
        """
        drawn = self.setup.common_samples() if common else None
        samples = None if drawn is None else SampleTensors.of(*drawn, self.setup.contract.input)
        return {name: agent.evaluate(round, samples) for name, agent in self.agents.items()}

    def work(self, round: int, agents: Sequence[str]) -> dict[str, bytes]:
        """Let these devices train; the messages they would send (none in a round without
        exchange).
        """
        messages: dict[str, bytes] = {}
        turn = Turn(self.setup.contract, self.setup.hyper, round)
        for name in agents:
            agent = self.agents[name]
            parts = agent.work(round)
            if self.setup.recipe.talks(turn):
                messages[name] = upload_message(self.setup, name, round, self.base, parts)
        return messages

    def embed(self, most: int) -> dict[str, Embedded]:
        """Embeddings of some test samples of every device, with their labels."""
        return {name: agent.embed(most) for name, agent in self.agents.items()}

    def checkpoint(self) -> dict[str, dict[str, Parts]]:
        """What every device must remember."""
        return {name: agent.checkpoint() for name, agent in self.agents.items()}

    def restore(self, saved: Mapping[str, dict[str, Parts]]) -> None:
        """Put every device back; the newest state is to be received after it."""
        for name, agent in self.agents.items():
            agent.restore(saved[name])

    def peak_rss(self) -> int:
        """The largest resident size of this process so far, in bytes."""
        size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return size if sys.platform == "darwin" else size * 1024

    def close(self) -> None:
        """Nothing to stop."""


def upload_message(setup: Setup, agent: str, round: int, base: str, parts: Parts) -> bytes:
    """An upload as it crosses the wire."""
    envelope = wire.Envelope(
        t="upload",
        fleet=setup.contract.fleet,
        run=RUN_ID,
        epoch=1,
        agent=agent,
        boot="0" * 16,
        seq=round,
        round=round,
        method=setup.recipe.name,
        base=base,
    )
    return wire.encode(
        envelope, parts, precision=setup.contract.wire, exceptions=setup.recipe.precision
    )


class LabWorker(Protocol):
    """Some of a run's devices, wherever they are: it takes an order, and is asked for the answer
    later. An answer that is an exception is what went wrong.
    """

    @property
    def agents(self) -> Sequence[str]: ...
    def order(self, name: str, *arguments: Any, **named: Any) -> None: ...
    def answer(self) -> Any: ...
    def close(self) -> None: ...


class DealtCrew:
    """Devices dealt out to workers. What all are told is told by `shared`, where something may
    be carried once for several of them.
    """

    def __init__(
        self, workers: Sequence[LabWorker], shared: Callable[[Any], Any] = lambda value: value
    ) -> None:
        self.workers = workers
        self._shared = shared

    def receive(self, round: int, state: GlobalState) -> None:
        """As `Here.receive`, everywhere at once."""
        self._all("receive", round, self._shared(state))

    def evaluate(self, round: int, *, common: bool = False) -> dict[str, Tallies]:
        """As `Here.evaluate`."""
        return _joined(self._all("evaluate", round, common=common))

    def work(self, round: int, agents: Sequence[str]) -> dict[str, bytes]:
        """As `Here.work`, everywhere at once."""
        chosen = set(agents)
        for worker in self.workers:
            worker.order("work", round, [a for a in worker.agents if a in chosen])
        return _joined(self._answers())

    def embed(self, most: int) -> dict[str, Embedded]:
        """As `Here.embed`."""
        return _joined(self._all("embed", most))

    def checkpoint(self) -> dict[str, dict[str, Parts]]:
        """As `Here.checkpoint`."""
        return _joined(self._all("checkpoint"))

    def restore(self, saved: Mapping[str, dict[str, Parts]]) -> None:
        """As `Here.restore`; each is given its own devices'."""
        for worker in self.workers:
            worker.order("restore", {agent: saved[agent] for agent in worker.agents})
        self._answers()

    def peak_rss(self) -> int:
        """Of all workers together."""
        return sum(self._all("peak_rss"))

    def close(self) -> None:
        """End the workers."""
        for worker in self.workers:
            worker.close()

    def _all(self, name: str, *arguments: Any, **named: Any) -> list[Any]:
        for worker in self.workers:
            worker.order(name, *arguments, **named)
        return self._answers()

    def _answers(self) -> list[Any]:
        answers = [worker.answer() for worker in self.workers]
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers


class Piped:
    """A worker that is a process of this machine, at the other end of a pipe."""

    def __init__(self, setup: Setup, agents: Sequence[str]) -> None:
        context = multiprocessing.get_context("spawn")
        self.agents = agents
        self._pipe, theirs = context.Pipe()
        self.process: Any = context.Process(
            target=_serve, args=(theirs, setup.config, setup.supplied, agents), daemon=True
        )
        _start(self.process)
        theirs.close()

    def order(self, name: str, *arguments: Any, **named: Any) -> None:
        """Begin it."""
        # Whoever died takes no order; `answer` finds the end of its pipe and says so.
        with suppress(OSError):
            self._pipe.send((named, name, *arguments))

    def answer(self) -> Any:
        """Of the oldest order that was not answered yet."""
        try:
            return self._pipe.recv()
        except (EOFError, OSError):
            self.process.join(timeout=5)
            return FleetError(
                f"a worker process died (exit code {self.process.exitcode})",
                "use fewer --workers",
            )

    def close(self) -> None:
        """End it."""
        self._pipe.close()
        self.process.join(timeout=10)
        if self.process.is_alive():
            self.process.terminate()


def dealt(shards: Sequence[Shard], workers: int) -> list[list[str]]:
    """Which devices each worker gets: the largest first, to whoever has least."""
    loads: list[tuple[int, list[str]]] = [(0, []) for _ in range(workers)]
    for shard in sorted(shards, key=lambda s: (-len(s.train), s.agent)):
        least = min(range(workers), key=lambda i: loads[i][0])
        loads[least] = (loads[least][0] + len(shard.train), [*loads[least][1], shard.agent])
    return [agents for _, agents in loads]


def _start(process: Any) -> None:
    try:
        process.start()
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        words = " ".join(str(error).split())
        raise UsageError(
            f"what you brought cannot be sent to another process: {words}",
            "workers=1, or put it into a module of its own",
        ) from error


def _joined(answers: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: answer[name] for answer in answers for name in answer}


def _serve(pipe: Connection, config: LabConfig, supplied: Supplied, agents: list[str]) -> None:
    crew = ready(config, supplied, agents)
    while True:
        try:
            named, name, *arguments = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        pipe.send(carried_out(crew, name, arguments, named))


def ready(config: LabConfig, supplied: Supplied, agents: Sequence[str]) -> Here | Exception:
    """What a worker works with, or why it cannot."""
    try:
        return Here(prepare(config, supplied), agents)
    except Exception as error:
        return error


def carried_out(
    crew: Here | Exception, name: str, arguments: Sequence[Any], named: Mapping[str, Any]
) -> Any:
    """An order's answer; what goes wrong is an answer, too, in a form that can be sent."""
    try:
        if isinstance(crew, Exception):
            raise crew
        with mistakes.named(crew.setup.recipe):
            return getattr(crew, name)(*arguments, **named)
    except FleetError as error:
        return error
    except Exception:
        return RuntimeError(traceback.format_exc())


def hire(setup: Setup, workers: int) -> Crew:
    """The crew for this many workers."""
    workers = min(workers, len(setup.agents))
    if workers <= 1:
        return Here(setup, setup.agents)
    return DealtCrew([Piped(setup, agents) for agents in dealt(setup.partition.shards, workers)])


class LabEngine(Protocol):
    """Where devices live and runs go on: this machine's processes, or a cluster."""

    @property
    def beside(self) -> bool: ...  # whether several runs go on at a time
    def hire(self, setup: Setup) -> Crew: ...
    def each(self, runs: Sequence[Callable[[LabEngine], T]]) -> Iterator[T]: ...


@dataclass(frozen=True)
class Local:
    """This machine: so many processes a run, one run after the other."""

    workers: int = 1
    beside: bool = False

    def hire(self, setup: Setup) -> Crew:
        """The crew of a run."""
        return hire(setup, self.workers)

    def each(self, runs: Sequence[Callable[[LabEngine], T]]) -> Iterator[T]:
        """What each of them comes to, as soon as it does."""
        return (run(self) for run in runs)
