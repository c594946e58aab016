"""`protofleet bench lab --engine ray`: whole runs in one process and on a cluster, with the state
that they end in and what all their processes hold in memory.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection

from protofleet.contract import Training
from protofleet.errors import FleetError
from simulators.cluster.engine import Cluster, Name, engine
from simulators.run.config import LabConfig, Run
from simulators.run.partitions import PartitionOptions
from simulators.run.rounds import LabOptions, run
from simulators.run.setup import prepare
from simulators.scale.footprint import watched_memory
from simulators.speed.lab import fashion_cnn4, variant


@dataclass(frozen=True)
class WholeRun:
    """A contender's figures."""

    name: str
    seconds: float  # of the run: without reading the data, and without beginning a cluster
    state: str
    accuracy: float | None
    memory: (
        int  # bytes (PSS) of all its processes at most, those of the cluster on this machine too
    )
    processes: int


@dataclass(frozen=True)
class Contest:
    """Where a run goes on."""

    name: Name
    workers: int | None = None
    address: str = ""


def minute() -> LabConfig:
    """Work that takes one process a minute: the 4-layer CNN on Fashion-MNIST, 20 × 600."""
    cell = variant(fashion_cnn4(), layout="channels-last", dtype="bf16")
    return replace(cell, run=replace(cell.run, rounds=24, eval_every=4))


def thousand() -> LabConfig:
    """A thousand devices with 42 images of MNIST each to train on: LeNet, averaged
    (`tools/flower_memory.py` has the same).
    """
    run = Run(
        method="fedavg",
        dataset="mnist",
        agents=1000,
        partition="iid",
        backbone="lenet",
        rounds=3,
        eval_every=3,
    )
    return LabConfig(
        run,
        PartitionOptions(limit=60_000, validation=0.0),
        Training(batch_size=20, lr=0.01, momentum=0.5),
    )


def measure(
    config: LabConfig, contests: Sequence[Contest], tell: Callable[[str], None]
) -> list[WholeRun]:
    """One after the other, each in a process of its own."""
    prepare(config)  # what is missing is said here, once
    context = multiprocessing.get_context("spawn")
    ended = []
    for contest in contests:
        ours, theirs = context.Pipe()
        process = context.Process(target=_run, args=(theirs, config, contest))
        process.start()
        theirs.close()
        try:
            while isinstance(words := ours.recv(), str):
                tell(words)
        except EOFError:
            raise FleetError("a contender's process died; its own words are above") from None
        finally:
            process.join()
        if isinstance(words, FleetError):
            raise words
        ended.append(words)
    return ended


def _run(pipe: Connection, config: LabConfig, contest: Contest) -> None:
    try:
        pipe.send(_ended(pipe, config, contest))
    except FleetError as error:
        pipe.send(error)


def _ended(pipe: Connection, config: LabConfig, contest: Contest) -> WholeRun:
    setup = prepare(config)
    with engine(contest.name, contest.workers, contest.address) as where:
        processes = contest.workers or 1
        name, session = "one process" if processes == 1 else f"{processes} processes", ""
        if isinstance(where, Cluster):
            workers = contest.workers or int(where.cores)
            name = f"ray, {workers} worker{'s' * (workers > 1)}, {where.head.nodes} nodes"
            session = where.head.session
        with watched_memory(os.getpid(), session) as most:
            began = time.perf_counter()
            outcome = run(
                setup,
                LabOptions(where),
                lambda row: pipe.send(f"{name}: round {row.round}/{config.run.rounds}"),
            )
            seconds = time.perf_counter() - began
    accuracy = outcome.rows[-1].accuracy.get(outcome.evaluator)
    return WholeRun(name, seconds, outcome.state.sha256, accuracy, most.bytes, most.processes)
