"""`kill -9`: of the coordinator and of a device at failpoints of their work, of the broker in the
middle of it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import Any

from coordinator.core import Core
from coordinator.errors import JournalError
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
from protofleet import wire
from protofleet.budget.released import noise_steps
from simulators.faults.case import Attempt, Case, after, breakable_broker, pause
from simulators.faults.crowd import crowd
from simulators.faults.failpoint import ANY, STATEMENT, Edge, Failpoint
from simulators.faults.proxy import Proxy
from simulators.faults.testbed import Testbed, until
from simulators.faults.verdict import PromiseBroken, judge, receipts

Table = dict[Callable[..., Any] | str, int]

# How often each happens, at least, in three rounds of three devices; turns in six, as a quick
# coordinator takes everybody's uploads and opens the next round in one.
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
# From the drawing of a cut's noise to what comes of it.
SPENDING: Table = {
    Core._noise: 3,
    Core._cut: 3,
    Core._outcome: 3,
    Core._fuse: 3,
    Journal.add_noise: 3,
    Journal.add_cut: 3,
    Journal.noise: 3,
    Journal.add_state: 4,
}
EDGES: tuple[Edge, Edge] = ("enter", "leave")


def coordinator_table(attempt: Attempt) -> Table:
    """What of it there is: a journal on a server has no files beside it."""
    if attempt.server is None:
        return COORDINATOR
    return {p: n for p, n in COORDINATOR.items() if p not in (SegmentLog.add, segments._write)}


def draw_failpoint(package: str, table: Table, seed: int) -> Failpoint:
    """The seeds go round the table, so that every function in it is met; its how-manieth call is
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


def coordinator_killed(attempt: Attempt) -> str:
    """It dies at an instant, and every third time its second life does, too."""
    table = coordinator_table(attempt)
    deaths = [draw_failpoint("coordinator", table, attempt.seed)]
    # The second life has a recovery behind it, which the first has not: other moments to die at.
    if attempt.seed % 3 == 2:
        deaths.append(draw_failpoint("coordinator", table, attempt.seed + 1))
    with attempt.broker() as broker:
        testbed = attempt.testbed(str(broker.address), rounds=6)
        words = lives_of_a_coordinator(testbed, deaths)
    judge(testbed)
    return words


def lives_of_a_coordinator(testbed: Testbed, deaths: Sequence[Failpoint]) -> str:
    """It dies of each of them in turn, and its last life ends the run; what came of them."""
    words = []
    with crowd(testbed.sites()):
        for number, death in enumerate(deaths):
            # What is left for a second life to do may rightly be less than what it should die of.
            coordinator = testbed.coordinator(death)
            killed = (
                coordinator.dies() if number == 0 else coordinator.ended() and coordinator.killed
            )
            receipts(testbed)
            words.append(f"{death}{'' if killed else ' (did not come)'}")
        testbed.coordinator().done()
    return ", then ".join(words)


def coordinator_killed_with_a_late_device(attempt: Attempt) -> str:
    """Staleness is allowed, one device has a slow line, and the coordinator dies with its upload on
    hold.
    """
    death = draw_failpoint("coordinator", coordinator_table(attempt), attempt.seed)
    with attempt.broker() as broker, Proxy(broker.address.port) as proxy:
        how = {"max_staleness": 3, "quorum": 0.6, "round_timeout": 0.4, "min_agents": 2}
        testbed = attempt.testbed(str(broker.address), rounds=7, serve=how)
        far, near = testbed.sites(f"mqtt://127.0.0.1:{proxy.port}")[:1], testbed.sites()[1:]
        proxy.delay(attempt.rng().uniform(0.2, 0.5))
        with crowd([*far, *near]):
            testbed.coordinator(death).dies()
            testbed.coordinator().done()
        log = (testbed.folder / "coordinator.log").read_text()
    judge(testbed, whole=False)
    late = sum(int(count) for count in re.findall(r"stale=(\d+)", log))
    return f"{death}, {late} late uploads fused"


def coordinator_killed_asynchronous(attempt: Attempt) -> str:
    """Rounds that are cuts of so many uploads."""
    death = draw_failpoint("coordinator", coordinator_table(attempt), attempt.seed)
    with attempt.broker() as broker:
        how = {"mode": "async", "cut": 2, "max_staleness": 3, "round_timeout": 5.0}
        testbed = attempt.testbed(str(broker.address), rounds=6, serve=how)
        with crowd(testbed.sites()):
            testbed.coordinator(death).dies()
            testbed.coordinator().done()
    judge(testbed, whole=False)
    return str(death)


def device_killed(attempt: Attempt) -> str:
    """One of three devices dies at an instant and comes back."""
    death = draw_failpoint("edge_agent", DEVICE, attempt.seed)
    with attempt.broker() as broker:
        testbed = attempt.testbed(str(broker.address))
        lives_of_a_device(testbed, death)
    judge(testbed)
    return str(death)


def lives_of_a_device(testbed: Testbed, death: Failpoint) -> None:
    """The first of them dies and comes back at once; the others stay."""
    victim, *others = testbed.names
    with crowd([site for site in testbed.sites() if site.agent in others]):
        coordinator, first = testbed.coordinator(), testbed.device(victim, death)
        until(
            lambda: first.process.poll() is not None or coordinator.process.poll() is not None,
            "an end",
        )
        first.stop()
        first.dies()
        second = testbed.device(victim)
        try:
            coordinator.done()
        finally:
            second.stop()


def broker_killed(attempt: Attempt) -> str:
    """It dies after so many uploads and comes back a little later; what it did not save is lost."""
    rng = attempt.rng()
    # Up to the last but one of the 12 uploads of four rounds: one that is lost must come again.
    count, seconds = rng.randint(0, 11), rng.choice([0.0, 0.5, 2.0])
    with breakable_broker(attempt) as broker:
        testbed = attempt.testbed(broker.url, rounds=4)
        with crowd(testbed.sites()):
            coordinator = testbed.coordinator()
            after(testbed, count)
            broker.kill()
            pause(seconds)
            broker.back()
            coordinator.done()
    judge(testbed)
    return f"after {count} uploads, for {seconds} s"


def everything_killed(attempt: Attempt) -> str:
    """Coordinator, broker and devices die together; the coordinator is back before its broker
    is.
    """
    rng = attempt.rng()
    count = rng.randint(1, 11)
    with breakable_broker(attempt) as broker:
        testbed = attempt.testbed(broker.url, rounds=4)
        coordinator = testbed.coordinator()
        devices = [testbed.device(name) for name in testbed.names]
        try:
            after(testbed, count)
            for victim in (coordinator, *devices):
                victim.process.kill()
            broker.kill()
            for victim in (coordinator, *devices):
                victim.process.wait()
            second = testbed.coordinator()
            devices = [testbed.device(name) for name in testbed.names]
            pause(rng.uniform(0.0, 2.0))
            broker.back()
            second.done()
        finally:
            for device in devices:
                device.stop()
    judge(testbed)
    return f"after {count} uploads"


def coordinator_killed_under_a_budget(attempt: Attempt) -> str:
    """It dies between the drawing of a cut's noise and its publication: nothing is drawn a second
    time for what was cut, and no more is published than was paid for.
    """
    death = draw_failpoint("coordinator", SPENDING, attempt.seed)
    with attempt.broker() as broker:
        promised = {"epsilon": 8.0, "clip": 3.0}
        testbed = attempt.testbed(str(broker.address), trust=promised)
        with crowd(testbed.sites()):
            testbed.coordinator(death).dies()
            receipts(testbed)
            before = _noise(testbed)
            testbed.coordinator().done()
    after_all = _noise(testbed)
    judge(testbed, whole=False)
    if before.items() - after_all.items():
        raise PromiseBroken("what was cut has another noise now")
    if len(after_all) != testbed.rounds:
        raise PromiseBroken(f"{len(after_all)} times noise was drawn for {testbed.rounds} cuts")
    return f"{death}, {len(before)} cuts with their noise by then"


def _noise(testbed: Testbed) -> dict[int, str]:
    """What was drawn for each round, by its hash."""
    try:
        journal = Journal.read(testbed.data)
    except JournalError:
        return {}
    try:
        numbers = [opened.round for opened in journal.rounds() if journal.cut(opened.round)]
        drawn = {number: journal.noise(number) for number in numbers}
        return {n: wire.digest({"": noise_steps(d)}) for n, d in drawn.items() if d is not None}
    finally:
        journal.close()


CASES = (
    Case(
        "coordinator killed, under a budget",
        coordinator_killed_under_a_budget,
        soak=16,
        signed=True,
    ),
    Case("coordinator killed", coordinator_killed, soak=54, signed=True),
    Case(
        "coordinator killed, a late device",
        coordinator_killed_with_a_late_device,
        soak=18,
        signed=True,
    ),
    Case("coordinator killed, asynchronous", coordinator_killed_asynchronous, soak=18, signed=True),
    Case("device killed", device_killed, soak=22, signed=True),
    Case("broker killed", broker_killed, soak=10, signed=True),
    Case("everything killed", everything_killed, soak=4, signed=True),
)
