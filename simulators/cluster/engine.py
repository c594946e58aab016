"""Where a command's runs go on, by name: processes of this machine, or a Ray cluster, over whose
cores (and GPUs) the devices of a run, and several runs, are dealt.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from protofleet.errors import FleetError, UsageError
from simulators.cluster.head import ClusterHead, WorkerLost, connected
from simulators.cluster.seats import ClusterSeat, Seated
from simulators.run.setup import Setup
from simulators.run.workers import Crew, DealtCrew, LabEngine, Local, dealt

T = TypeVar("T")
Name = Literal["lab", "ray"]
SOON = 10.0  # s in which the core of a worker that was lost is free again
LATE = 600.0  # s that somebody else may have all cores


@dataclass(frozen=True)
class Cluster:
    """A run's share of a Ray cluster; `workers` where somebody says how many a run has."""

    head: ClusterHead
    cores: float
    gpus: float
    workers: int | None = None
    beside: bool = False

    def hire(self, setup: Setup) -> Crew:
        """A worker a core, or a GPU where devices are trained on those, each with some devices."""
        numerics = setup.contract.numerics
        on_gpus = numerics.device == "cuda"
        if on_gpus and not self.gpus:
            raise UsageError("no machine of the cluster has a GPU", "--device cpu")
        room = self.gpus if on_gpus else self.cores / numerics.threads
        count = min(self.workers or max(1, int(room)), len(setup.agents))
        cores = min(float(numerics.threads), self.cores / count)
        gpus = self.gpus / count if on_gpus else 0.0
        needs = {"num_cpus": cores, "num_gpus": gpus if gpus < 1 else int(gpus)}

        sent = (
            # What was resolved here (auto: cpu or cuda) holds on every machine.
            self.head.carried(replace(setup.config, numerics=numerics)),
            self.head.carried(replace(setup.supplied, data=None, shards=setup.partition.shards)),
            self.head.carried_once(setup.data),
        )
        seat = self.head.ray.remote(ClusterSeat)

        def make(agents: Sequence[str], *, again: bool) -> Any:
            own = needs
            if again and not self.head.until(lambda: self.head.free("CPU") >= cores, SOON):
                own = {**needs, "num_cpus": 0}  # its machine is gone, so it shares somebody's core
            options = seat.options(max_restarts=0, scheduling_strategy="SPREAD", **own)
            return options.remote(*sent, agents)

        workers = [
            Seated(self.head, agents, make) for agents in dealt(setup.partition.shards, count)
        ]
        crew = DealtCrew(workers, self.head.carried)
        try:
            for worker in workers:
                self._welcome(worker, count)
        except BaseException:
            crew.close()
            raise
        return crew

    def each(self, runs: Sequence[Callable[[LabEngine], T]]) -> Iterator[T]:
        """What each run comes to, as soon as it does; as many at a time as there are cores for."""
        if not runs:
            return
        at_once = max(1, int(self.cores / self.workers) if self.workers else int(self.cores))
        at_once = min(at_once, len(runs))
        share = replace(
            self, cores=self.cores / at_once, gpus=self.gpus / at_once, beside=at_once > 1
        )
        if not self.workers:
            share = replace(share, cores=float(max(1, int(share.cores))))
        if at_once == 1:
            yield from (run(share) for run in runs)
            return
        baton, pool = self.head.baton, ThreadPoolExecutor(at_once, "run")

        def turn(run: Callable[[LabEngine], T]) -> T:
            with baton.held():
                return run(share)

        pending: set[Future[T]] = {pool.submit(turn, run) for run in runs}
        try:
            while pending:
                with baton.away():
                    done, pending = wait(pending, return_when=FIRST_COMPLETED)
                yield from (each.result() for each in done)
        finally:
            baton.over = bool(pending)
            with baton.away():
                pool.shutdown(cancel_futures=True)

    def _welcome(self, worker: Seated, count: int) -> None:
        """Wait until it is there; it must compute as we do, or the state would be another."""
        theirs, ours = self._first_words(worker, count), ClusterSeat.versions()
        other = [name for name in ours if ours[name] != theirs[name]]
        if other:
            words = [f"{name} {theirs[name]} there, {ours[name]} here" for name in other]
            raise FleetError(f"a node of the cluster comes to other bits: {', '.join(words)}")

    def _first_words(self, worker: Seated, count: int) -> dict[str, str]:
        reference = worker.seat.versions.remote()
        try:
            try:
                words = self.head.answer(reference, SOON)
            except TimeoutError:
                cores = f"{self.head.free('CPU'):g} of the cluster's {self.head.has('CPU'):g} cores"
                print(f"waiting for room for {count} workers: {cores} are free", file=sys.stderr)
                words = self.head.answer(reference, LATE)
        except TimeoutError as error:
            raise FleetError(
                f"the cluster has no room for {count} workers", "fewer --workers, or wait"
            ) from error
        except WorkerLost as lost:
            raise FleetError(
                f"a worker could not begin on the cluster: {lost}",
                "protofleet[ray] must be installed on every node, in the same version",
            ) from lost
        return dict(words)


@contextmanager
def engine(
    name: Name = "lab", workers: int | None = None, address: str = ""
) -> Iterator[LabEngine]:
    """The engine of this name, for as long as a command lasts."""
    if name == "lab":
        if address:
            raise UsageError("--address is a Ray cluster's", "--engine ray")
        yield Local(workers or 1)
        return
    with connected(address) as head:
        yield Cluster(head, head.has("CPU"), head.has("GPU"), workers)
