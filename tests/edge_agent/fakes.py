"""What stands around a daemon's parts in tests: a link that keeps what it is given, and a training
process that does nothing.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from edge_agent.config import AgentSection, Config, FleetSection, LimitsSection
from edge_agent.daemon.outbound import Outbound
from edge_agent.worker.ipc import Answer, Order
from protofleet import wire
from protofleet.errors import LinkBusy
from protofleet.mqtt.link.events import Arrival, Event, Ticket
from protofleet.mqtt.topics import Topics
from protofleet.util.logs import Log

TOPICS = Topics("f")
BOOT = "b" * 16
PREFIX = TOPICS.prefix + "/"


@dataclass
class FakeLink:
    """Keeps what is published, unless it is `full`. Each turn of a loop gets one batch of events,
    or what a test does in that turn.
    """

    address: str = "mqtt://nowhere"
    full: bool = False
    published: list[tuple[str, bytes, bool]] = field(default_factory=list)
    acknowledged: list[Arrival] = field(default_factory=list)
    subscribed: list[tuple[str, int]] = field(default_factory=list)
    turns: list[list[Event] | Callable[[], object]] = field(default_factory=list)
    idle: Callable[[], object] = lambda: None  # called when there are no more

    def publish(self, topic: str, payload: bytes, *, retain: bool = False, **more: Any) -> Ticket:
        if self.full:
            raise LinkBusy("full")
        self.published.append((topic, payload, retain))
        ticket = Ticket(threading.Condition())
        ticket.settle(None)
        return ticket

    def subscribe(self, filters: list[tuple[str, int]]) -> None:
        self.subscribed += filters

    def poll(self, timeout: float) -> list[Event]:
        if not self.turns:
            self.idle()
            return []
        turn = self.turns.pop(0)
        if isinstance(turn, list):
            return turn
        turn()
        return []

    def ack(self, arrival: Arrival) -> None:
        self.acknowledged.append(arrival)

    def start(self) -> None: ...

    def wake(self) -> None: ...

    def stop(self, farewells: list[Any], patience: float) -> None:
        self.published += [(each.topic, each.payload, each.retain) for each in farewells]

    def kinds(self) -> list[str]:
        """What stands behind the fleet's prefix in the topics, in order."""
        return [topic.removeprefix(PREFIX) for topic, _, _ in self.published]

    def messages(self) -> list[wire.Message]:
        return [wire.decode(payload) for _, payload, _ in self.published]


@dataclass
class FakeSupervisor:
    """Takes orders; `ready` is what it answers next."""

    orders: list[Order] = field(default_factory=list)
    ready: list[Answer] = field(default_factory=list)
    dismissed: int = 0
    pid: int | None = None

    def order(self, order: Order) -> None:
        self.orders.append(order)

    def answers(self) -> list[Answer]:
        answers, self.ready = self.ready, []
        return answers

    def dismiss(self) -> None:
        self.dismissed += 1


def config(folder: Any, agent: str = "a") -> Config:
    """A device that may always train, with its files in a folder."""
    return Config(
        agent=AgentSection(agent, str(folder)),
        fleet=FleetSection("f"),
        limits=LimitsSection(min_free_mb=0),
    )


def outbound_to(link: FakeLink, folder: Any, counts: list[int] | None = None) -> Outbound:
    count = (counts if counts is not None else []).append
    return Outbound(link, TOPICS, config(folder), BOOT, count)


def log() -> tuple[Log, io.StringIO]:
    lines = io.StringIO()
    return Log(lines), lines
