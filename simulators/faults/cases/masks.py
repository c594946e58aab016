"""`kill -9` in a fleet whose sums are masked: of the coordinator and of devices at every step of a
group, and devices that never come back.

What a masked fleet ends in is held to the plain laboratory's by the same verdict as every other:
the state after each round is that of the devices that its cut counts, and nobody read an upload.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coordinator.core import Core
from coordinator.journal.journal import Journal
from coordinator.journal.minutes import MinuteTables
from coordinator.service.extractors import RANDOM
from coordinator.service.replay import replayed
from coordinator.uploads.assembly import Assembly
from edge_agent.daemon.executor import ActionExecutor
from edge_agent.daemon.masker import Masker
from edge_agent.store import Store
from simulators.faults.case import Attempt, Case, pause
from simulators.faults.cases.deaths import (
    Table,
    draw_failpoint,
    lives_of_a_coordinator,
    lives_of_a_device,
)
from simulators.faults.cases.trained import restarted
from simulators.faults.crowd import crowd
from simulators.faults.failpoint import STATEMENT
from simulators.faults.testbed import Testbed, until
from simulators.faults.verdict import PromiseBroken, judge, receipts
from simulators.live import contributions, fleet
from simulators.run.config import LabConfig, MaskOptions, Run
from simulators.run.setup import prepare

DEVICES, ROUNDS = 5, 2
MASKED = {"secure_sum": True, "dropouts": 1}
# How often each happens, at least, in two rounds of five devices.
COORDINATOR: Table = {
    Assembly.convene: 2,
    Assembly.take: 36,
    Assembly.write: 10,
    Assembly.advance: 10,
    Assembly.words: 8,
    Assembly.end: 2,
    MinuteTables.put_group: 2,
    MinuteTables.put: 16,
    Journal.add_minutes: 16,
    Journal.commit: 24,
    Core._convene: 2,
    Core._assemble: 12,
    Core._close: 2,
    Core._fuse: 2,
    STATEMENT: 120,
}
DEVICE: Table = {
    Masker.begin: 2,
    Masker.letter: 6,
    Masker.hears: 8,
    Store.take_seat: 8,
    Store.seat: 12,
    Store.settle: 2,
    Store.commit_round: 2,
    ActionExecutor._send: 8,
    STATEMENT: 60,
}


def _testbed(
    attempt: Attempt, url: str, trust: Mapping[str, Any] = MASKED, **serve: float
) -> Testbed:
    return attempt.testbed(url, agents=DEVICES, rounds=ROUNDS, trust=trust, serve=serve)


def coordinator_killed(attempt: Attempt) -> str:
    """It dies at an instant of a group's way, and every third time its second life does, too."""
    deaths = [draw_failpoint("coordinator", COORDINATOR, attempt.seed)]
    if attempt.seed % 3 == 2:
        deaths.append(draw_failpoint("coordinator", COORDINATOR, attempt.seed + 1))
    with attempt.broker() as broker:
        testbed = _testbed(attempt, str(broker.address))
        words = lives_of_a_coordinator(testbed, deaths)
    judge(testbed)
    return words


def killed_under_a_budget(attempt: Attempt) -> str:
    """The coordinator dies at an instant, and its devices add their noise under their masks: a
    replay ends in the same states, and nobody else drew any.
    """
    death = draw_failpoint("coordinator", COORDINATOR, attempt.seed)
    with attempt.broker() as broker:
        promised = {**MASKED, "epsilon": 8.0, "clip": 3.0}
        testbed = _testbed(attempt, str(broker.address), promised)
        with crowd(testbed.sites()):
            testbed.coordinator(death).dies()
            receipts(testbed)
            testbed.coordinator().done()
    judge(testbed, whole=False)
    journal = Journal.read(testbed.data)
    try:
        if any(journal.noise(opened.round) for opened in journal.rounds()):
            raise PromiseBroken("the coordinator knows of noise that it did not need")
    finally:
        journal.close()
    return str(death)


def device_killed(attempt: Attempt) -> str:
    """One of five dies at an instant, comes back at once, and goes on in the same group."""
    death = draw_failpoint("edge_agent", DEVICE, attempt.seed)
    with attempt.broker() as broker:
        testbed = _testbed(attempt, str(broker.address))
        lives_of_a_device(testbed, death)
    judge(testbed)
    return str(death)


def device_lost(attempt: Attempt) -> str:
    """One of five dies at an instant and does not come back before its rounds are over."""
    death = draw_failpoint("edge_agent", DEVICE, attempt.seed)
    with attempt.broker() as broker:
        testbed = _testbed(attempt, str(broker.address), round_timeout=1.5, quorum=0.8)
        victim, *others = testbed.names
        with crowd([site for site in testbed.sites() if site.agent in others]):
            lost, coordinator = testbed.device(victim, death), testbed.coordinator()
            coordinator.done()
            lost.stop()
    judge(testbed, whole=False)
    return str(death)


def too_many_lost(attempt: Attempt) -> str:
    """More devices than a group may lose: its round ends without a total, in one line, and the next
    one does not.
    """
    with attempt.broker() as broker:
        testbed = _testbed(attempt, str(broker.address), round_timeout=1.5, quorum=0.6)
        mortal, stay = testbed.names[:2], testbed.names[2:]
        death = draw_failpoint("edge_agent", {Store.take_seat: 4}, attempt.seed)
        with crowd([site for site in testbed.sites() if site.agent in stay]):
            victims = [testbed.device(name, death) for name in mortal]
            coordinator = testbed.coordinator()
            until(lambda: all(one.process.poll() is not None for one in victims), "two deaths")
            log = testbed.folder / "coordinator.log"
            until(lambda: log.read_text().count("cannot be fused") == 1, "a round without a total")
            pause(0.2)
            back = [testbed.device(name) for name in mortal]
            try:
                coordinator.done()
            finally:
                for one in back:
                    one.stop()
        words = log.read_text()
    if words.count("cannot be fused") != 1:
        raise PromiseBroken("a round without a total is said once")
    judge(testbed, whole=False)
    return str(death)


def ledger_killed(attempt: Attempt) -> str:
    """Real devices and a ledger: three deaths at seeded moments, and nobody is lost; so the ledger
    ends in the laboratory's plain sums.
    """
    rng, words = attempt.rng(), []
    run = Run(method="fleet", dataset="digits", agents=4, partition="iid", seed=attempt.seed)
    setup = prepare(LabConfig(run, masks=MaskOptions(secure_sum=True, dropouts=1)))
    folder = attempt.folder / "fleet"
    folder.mkdir()
    with attempt.broker() as broker:
        fleet.write(setup, folder, str(broker.address))
        with fleet.members(setup, folder) as members:
            bundle = folder / "coordinator-data" / RANDOM
            until(bundle.exists, "an extractor", 120.0)
            for _ in range(3):
                pause(rng.uniform(0.5, 4.0))
                words.append(restarted(folder, members, rng.randrange(len(members))))
            contributions.settled(setup, folder, members)
    journal = fleet.reader(folder)
    try:
        wrong = [state for state in replayed(journal) if state.verdict != "same"]
        newest = journal.ledger.newest()
    finally:
        journal.close()
    here = contributions.laboratory(setup, bundle).sha256
    if wrong or newest is None or newest.sha256 != here:
        raise PromiseBroken(f"a masked ledger ended elsewhere than the plain sums: {wrong}")
    return ", ".join(words)


CASES = (
    Case("coordinator killed, masked", coordinator_killed, soak=30, signed=True),
    Case("coordinator killed, masked, under a budget", killed_under_a_budget, soak=12, signed=True),
    Case("device killed, masked", device_killed, soak=18, signed=True),
    Case("device lost, masked", device_lost, soak=18, signed=True),
    Case("too many lost, masked", too_many_lost, soak=4),
    Case("ledger killed, masked", ledger_killed, soak=4, brokers=("mosquitto",)),
)
