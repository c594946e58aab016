"""`kill -9`: of the coordinator and of a device at chosen instants of their work, of the broker in
the middle of it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

from coordinator.core import Core
from coordinator.journal import segments
from coordinator.journal.journal import Journal
from coordinator.journal.segments import SegmentLog
from coordinator.service.blobs import BlobServer
from coordinator.service.loop import Service
from coordinator.uploads.aggregate import Aggregator
from coordinator.uploads.intake import Intake
from edge_agent.daemon.executor import ActionExecutor
from edge_agent.daemon.inbound import InboundDecoder
from edge_agent.daemon.transfers import Transfers
from edge_agent.store import Store
from simulators.faults.case import Attempt, Case, after, breakable, pause
from simulators.faults.crowd import crowd
from simulators.faults.failpoint import ANY, STATEMENT, Edge, Failpoint
from simulators.faults.proxy import Proxy
from simulators.faults.testbed import until
from simulators.faults.verdict import judge, receipts

Table = dict[Callable[..., Any] | str, int]

# How often each happens, at least, in three rounds of three devices.
COORDINATOR: Table = {
    Journal.commit: 12,
    STATEMENT: 70,
    Core.take: 8,
    Core._open: 3,
    Core._cut: 3,
    Core._fuse: 3,
    Core.recover: 1,
    Core.greetings: 1,
    Intake.take: 9,
    Intake.written: 6,
    BlobServer.send: 8,
    Service._turn: 8,
    Journal.add_round: 3,
    Journal.add_uploads: 3,
    Journal.add_cut: 3,
    Journal.add_state: 4,
    Aggregator.add: 9,
    SegmentLog.add: 3,
    segments._write: 3,
    ANY: 570,
}
DEVICE: Table = {
    Store.hold: 3,
    Store.commit_round: 3,
    Store.settle: 3,
    Store.take_over: 1,
    ActionExecutor._send: 3,
    ActionExecutor._open: 1,
    ActionExecutor._order: 3,
    InboundDecoder.take_in: 8,
    Transfers.outgoing: 3,
    STATEMENT: 60,
    ANY: 700,
}
EDGES: tuple[Edge, Edge] = ("enter", "leave")


def instant(package: str, table: Table, seed: int) -> Failpoint:
    """The seeds go round the table, so that every kind of instant is met; which one of its kind is
    drawn.
    """
    points = {point if isinstance(point, str) else point.__qualname__: point for point in table}
    rng, point = random.Random(seed), points[sorted(points)[seed % len(points)]]
    edge, number = EDGES[seed // len(points) % 2], rng.randint(1, table[point])
    return (
        Failpoint(package, point, edge, number)
        if isinstance(point, str)
        else Failpoint.of(point, edge, number)
    )


def coordinator(scene: Attempt) -> str:
    """It dies at an instant, and every third time its second life does, too."""
    deaths = [instant("coordinator", COORDINATOR, scene.seed)]
    if scene.seed % 3 == 2:
        deaths.append(instant("coordinator", COORDINATOR, scene.seed + 1))
    told = []
    with scene.broker() as broker:
        stage = scene.stage(str(broker.address))
        with crowd(stage.places()):
            for number, death in enumerate(deaths):
                # What is left for a second life to do may rightly be less than what it should die
                # of.
                actor = stage.coordinator(death)
                killed = actor.dies() if number == 0 else actor.ended() and actor.killed
                receipts(stage)
                told.append(f"{death}{'' if killed else ' (did not come)'}")
            stage.coordinator().done()
    judge(stage)
    return ", then ".join(told)


def coordinator_with_a_late_device(scene: Attempt) -> str:
    """Staleness is allowed, one device has a slow line, and the coordinator dies with its upload on
    hold.
    """
    death = instant("coordinator", COORDINATOR, scene.seed)
    with scene.broker() as broker, Proxy(broker.address.port) as proxy:
        how = {"max_staleness": 3, "quorum": 0.6, "round_timeout": 0.4, "min_agents": 2}
        stage = scene.stage(str(broker.address), rounds=7, serve=how)
        far, near = stage.places(f"mqtt://127.0.0.1:{proxy.port}")[:1], stage.places()[1:]
        proxy.delay(scene.rng().uniform(0.2, 0.5))
        with crowd([*far, *near]):
            stage.coordinator(death).dies()
            stage.coordinator().done()
        log = (stage.folder / "coordinator.log").read_text()
    judge(stage, whole=False)
    held = sum(int(count) for count in re.findall(r"stale=(\d+)", log))
    return f"{death}, {held} late uploads fused"


def asynchronous(scene: Attempt) -> str:
    """Rounds that are cuts of so many uploads."""
    death = instant("coordinator", COORDINATOR, scene.seed)
    with scene.broker() as broker:
        how = {"mode": "async", "cut": 2, "max_staleness": 3, "round_timeout": 5.0}
        stage = scene.stage(str(broker.address), rounds=6, serve=how)
        with crowd(stage.places()):
            stage.coordinator(death).dies()
            stage.coordinator().done()
    judge(stage, whole=False)
    return str(death)


def device(scene: Attempt) -> str:
    """One of three devices dies at an instant and comes back."""
    death = instant("edge_agent", DEVICE, scene.seed)
    with scene.broker() as broker:
        stage = scene.stage(str(broker.address))
        mortal, *others = stage.names
        with crowd([place for place in stage.places() if place.agent in others]):
            service, first = stage.coordinator(), stage.device(mortal, death)
            until(
                lambda: first.process.poll() is not None or service.process.poll() is not None,
                "an end",
            )
            first.stop()
            first.dies()
            second = stage.device(mortal)
            try:
                service.done()
            finally:
                second.stop()
    judge(stage)
    return str(death)


def broker(scene: Attempt) -> str:
    """It dies after so many uploads and comes back a little later; what it did not save is lost."""
    rng = scene.rng()
    count, gone = rng.randint(0, 11), rng.choice([0.0, 0.5, 2.0])
    with breakable(scene) as broker:
        stage = scene.stage(broker.url, rounds=4)
        with crowd(stage.places()):
            actor = stage.coordinator()
            after(stage, count)
            broker.kill()
            pause(gone)
            broker.back()
            actor.done()
    judge(stage)
    return f"after {count} uploads, for {gone} s"


def everything(scene: Attempt) -> str:
    """Coordinator, broker and devices die together; the coordinator is back before its broker
    is.
    """
    rng = scene.rng()
    count = rng.randint(1, 11)
    with breakable(scene) as broker:
        stage = scene.stage(broker.url, rounds=4)
        actor = stage.coordinator()
        devices = [stage.device(name) for name in stage.names]
        try:
            after(stage, count)
            for each in (actor, *devices):
                each.process.kill()
            broker.kill()
            for each in (actor, *devices):
                each.process.wait()
            second = stage.coordinator()
            devices = [stage.device(name) for name in stage.names]
            pause(rng.uniform(0.0, 2.0))
            broker.back()
            second.done()
        finally:
            for each in devices:
                each.stop()
    judge(stage)
    return f"after {count} uploads"


CASES = (
    Case("coordinator killed", coordinator, soak=54),
    Case("coordinator killed, a late device", coordinator_with_a_late_device, soak=18),
    Case("coordinator killed, asynchronous", asynchronous, soak=18),
    Case("device killed", device, soak=22),
    Case("broker killed", broker, soak=10),
    Case("everything killed", everything, soak=4),
)
