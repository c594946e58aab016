"""Devices in the processes of a cluster: a worker that is lost is made anew, with its devices as
they were.
"""

# Theory of operation
#
# What a device is follows from what it was told: the state it was put back to, and the (round
# trained, state received) since (`edge_agent/training/agent.py`). So whoever tells devices what to
# do can make them again. A worker's order is remembered here once it was carried out, if a device
# is another by it:
#
#     restore        all that was told before it is forgotten
#     receive        takes the place of a `receive` right before it, which nobody trained on
#     work           stays
#     checkpoint     all that was told before it is forgotten: its answer is what devices are put
#                    back to; the newest `receive` stays, since that is not in it
#     others         change nothing
#
# A worker that is lost (killed, out of memory, its machine gone) is made anew wherever there is a
# core, is told all of this again, and then what it was at. It comes to the same bits, so nobody
# else notices. Rounds since the last checkpoint are trained twice: with `--out` few, without all.
#
# A worker that is lost LIVES times at the same order will be lost again; that ends the run.
#
# States and checkpoints are kept in Ray's store, which goes to disk when it is full.

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from edge_agent.data.dataset import DataSet
from protofleet.errors import FleetError
from simulators.cluster.head import ClusterHead, WorkerLost
from simulators.run.config import LabConfig
from simulators.run.result import versions
from simulators.run.setup import Supplied
from simulators.run.workers import carried_out, ready

LIVES = 3


class ClusterSeat:
    """What a process of the cluster runs: some of a run's devices."""

    def __init__(
        self, config: LabConfig, supplied: Supplied, data: DataSet, agents: Sequence[str]
    ) -> None:
        # The data lies in memory that all processes of a node share; rows are copied out of it.
        self._crew = ready(config, replace(supplied, data=data), agents)

    def carry(self, name: str, named: Mapping[str, Any], *arguments: Any) -> Any:
        """An order's answer."""
        return carried_out(self._crew, name, arguments, named)

    @staticmethod
    def versions() -> dict[str, str]:
        """What computes here."""
        return {**versions(), "machine": f"{sys.platform} {platform.machine()}"}


class Order(NamedTuple):
    """What a worker is told."""

    name: str
    arguments: tuple[Any, ...] = ()
    named: Mapping[str, Any] = {}


class Make(Protocol):
    """Has a seat made for these devices."""

    def __call__(self, agents: Sequence[str], *, again: bool) -> Any: ...


class Seated:
    """A worker in a process of the cluster; `make` has one made, the first or in its place."""

    def __init__(self, head: ClusterHead, agents: Sequence[str], make: Make) -> None:
        self.agents = agents
        self._head, self._make, self.seat = head, make, make(agents, again=False)
        self._told: list[Order] = []
        self._asked, self._answer = Order(""), None

    def order(self, name: str, *arguments: Any, **named: Any) -> None:
        """Begin it."""
        if name == "restore":
            arguments = (self._head.carried(arguments[0]),)
        self._asked = Order(name, arguments, named)
        self._answer = self._tell(self._asked)

    def answer(self) -> Any:
        """Of the order, by this worker or one in its place."""
        losses = 0
        while True:
            try:
                answer = self._head.answer(self._answer)
            except WorkerLost as lost:
                losses += 1
                if losses == LIVES:
                    return FleetError(
                        f"{LIVES} workers were lost at the same order ({self._asked.name}): {lost}",
                        "use fewer --workers, or a node with more memory",
                    )
                self._again()
            else:
                if not isinstance(answer, Exception):
                    self._remember(answer)
                return answer

    def close(self) -> None:
        """End it."""
        self._head.ray.kill(self.seat)

    def _tell(self, order: Order) -> Any:
        return self.seat.carry.remote(order.name, order.named, *order.arguments)

    def _again(self) -> None:
        self._head.look()
        print(
            f"a worker of the cluster was lost; its {len(self.agents)} devices are made again in"
            " another",
            file=sys.stderr,
        )
        self._head.ray.kill(self.seat)  # it may only have been out of reach
        self.seat = self._make(self.agents, again=True)
        for order in self._told:
            self._tell(order)
        self._answer = self._tell(self._asked)

    def _remember(self, answer: Any) -> None:
        done = self._asked
        if done.name == "restore":
            self._told = [done]
        elif done.name == "receive":
            if self._told and self._told[-1].name == "receive":
                self._told.pop()
            self._told.append(done)
        elif done.name == "work":
            self._told.append(done)
        elif done.name == "checkpoint":
            received = [order for order in self._told if order.name == "receive"]
            self._told = [Order("restore", (self._head.carried(answer),)), *received[-1:]]
