"""Disks: no room for the journal or the outbox, and writes that power took with it."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coordinator.core import Core
from coordinator.journal.journal import Journal
from coordinator.service.blobs import BlobServer
from edge_agent.store import Store
from simulators.faults.case import Attempt, Case, after, breakable_broker, pause
from simulators.faults.cases.deaths import COORDINATOR
from simulators.faults.crowd import crowd
from simulators.faults.failpoint import Failpoint
from simulators.faults.smalldisk import SmallDisk, small_disk
from simulators.faults.testbed import RUN, until
from simulators.faults.verdict import PromiseBroken, judge

ROOM = 65_536  # kilobytes, for a journal or a store of a few rounds and its write-ahead log
POINTS: tuple[Callable[..., Any], ...] = (
    Core._fuse,
    Core._cut,
    Core._open,
    Core.take,
    BlobServer.send,
    Journal.commit,
)
# With nothing left the first write fails; with a little, one in the middle of a commit does.
LEFT = (0, 20_000, 200_000)  # bytes that are left on a full disk


def no_room_for_the_journal(attempt: Attempt) -> str:
    """The coordinator's disk is full for a while, from after so many uploads on."""
    rng = attempt.rng()
    number, room = rng.randint(1, 4), rng.choice(LEFT)
    with attempt.broker() as broker:
        testbed = attempt.testbed(str(broker.address), rounds=6)
        with small_disk(testbed.data, ROOM) as disk, crowd(testbed.sites()):
            coordinator = testbed.coordinator(wrap=disk.inside)
            until(
                lambda: coordinator.log.read_text().count("round opened") >= number,
                f"round {number}",
            )
            pause(rng.choice([0.0, 0.02, 0.05]))
            disk.fill(room)
            until(
                lambda: (
                    "cannot be written" in coordinator.log.read_text()
                    or coordinator.process.poll() is not None
                ),
                "trouble",
            )
            pause(rng.uniform(0.0, 3.0))
            disk.empty()
            coordinator.done()
            disk.copy_to(testbed.data)
    judge(testbed)
    return f"in round {number}, {room} bytes left"


def no_room_for_the_outbox(attempt: Attempt) -> str:
    """One device's disk is full for a while."""
    rng = attempt.rng()
    count, room = rng.randint(1, 8), rng.choice(LEFT)
    with attempt.broker() as broker:
        testbed = attempt.testbed(str(broker.address), rounds=5)
        poor, *rich = testbed.sites()
        with small_disk(poor.folder, ROOM) as disk, crowd(rich):
            coordinator = testbed.coordinator()
            device = testbed.device(poor.agent, wrap=disk.inside)
            try:
                after(testbed, count)
                disk.fill(room)
                until(
                    lambda: coordinator.process.poll() is not None or "disk is full" in _said(disk),
                    "trouble",
                )
                pause(rng.uniform(0.0, 2.0))
                disk.empty()
                coordinator.done()
            finally:
                device.stop()
            disk.copy_to(poor.folder)
    gave_up = "will not train" in coordinator.log.read_text()
    judge(testbed, whole=not gave_up)
    return f"after {count} uploads, {room} bytes left{', a round given up' if gave_up else ''}"


def no_room_to_begin_with(attempt: Attempt) -> str:
    """Coordinator and device are started on full disks: each ends with one line that says so."""
    with attempt.broker() as broker:
        testbed = attempt.testbed(str(broker.address), rounds=2)
        poor, *rich = testbed.sites()
        with (
            small_disk(testbed.data, ROOM) as here,
            small_disk(poor.folder, ROOM) as there,
            crowd(rich),
        ):
            here.fill()
            there.fill()
            for process in (
                testbed.coordinator(wrap=here.inside),
                testbed.device(poor.agent, wrap=there.inside),
            ):
                code, words = process.ended(20), process.log.read_text()
                if code != 1 or "Traceback" in words or "full" not in words:
                    raise PromiseBroken(
                        f"{process.name} on a full disk ended with {code}: {words[-300:]}"
                    )
            here.empty()
            there.empty()
            coordinator, device = (
                testbed.coordinator(wrap=here.inside),
                testbed.device(poor.agent, wrap=there.inside),
            )
            try:
                coordinator.done()
            finally:
                device.stop()
            here.copy_to(testbed.data)
            there.copy_to(poor.folder)
    judge(testbed)
    return "both said so"


def _said(disk: SmallDisk) -> str:
    try:
        return (disk.outside / "log").read_text()
    except OSError:
        return ""


def power_loss(attempt: Attempt) -> str:
    """The coordinator dies, and the last writes of its journal are gone: its log cut short at a
    seeded length.
    """
    rng = attempt.rng()
    death = _death(rng)
    with attempt.broker() as broker:
        testbed = attempt.testbed(str(broker.address), rounds=6)
        with crowd(testbed.sites()):
            testbed.coordinator(death).dies()
            length = cut_short(testbed.data / "journal.db", rng)
            testbed.coordinator().done()
    judge(testbed)
    return f"{death}, {length}"


def power_loss_everywhere(attempt: Attempt) -> str:
    """As before, with devices and broker switched off at the same time."""
    rng = attempt.rng()
    death = _death(rng)
    with breakable_broker(attempt) as broker:
        testbed = attempt.testbed(broker.url, rounds=6)
        devices = [testbed.device(name) for name in testbed.names]
        testbed.coordinator(death).dies()
        for device in devices:
            device.kill()
        broker.kill()
        length = cut_short(testbed.data / "journal.db", rng)
        broker.back()
        with crowd(testbed.sites()):
            testbed.coordinator().done()
    judge(testbed)
    return f"{death}, {length}"


def power_loss_of_a_device(attempt: Attempt) -> str:
    """A device dies in a round that stays open, and what it wrote in it is gone: it trains the
    round again.
    """
    rng = attempt.rng()
    with attempt.broker() as broker:
        testbed = attempt.testbed(str(broker.address), rounds=4)
        victim, _, absent = testbed.names
        with crowd(testbed.sites()[1:2]):
            coordinator, dies, leaves = (
                testbed.coordinator(),
                testbed.device(victim),
                testbed.device(absent),
            )
            after(testbed, rng.randint(3, 6))
            leaves.kill()
            until(
                lambda: testbed.status().get("missing") == [absent],
                "a round in which only one is missing",
            )
            number = testbed.status()["round"]
            pause(rng.choice([0.0, 0.3]))
            dies.kill()
            length = cut_short(
                testbed.home(victim) / "agent.db", rng, lambda copy: _trained(copy) >= number - 1
            )
            with crowd([site for site in testbed.sites() if site.agent in (victim, absent)]):
                coordinator.done()
    judge(testbed)
    return f"in round {number}, {length}"


def cut_short(
    database: Path, rng: random.Random, fits: Callable[[Path], bool] = lambda copy: True
) -> str:
    """Leave only so much of a write-ahead log; what that comes to must `fit` when a copy is
    opened.
    """
    # SQLite syncs its log at every commit here, so a loss of power should take nothing that was
    # promised. This takes more: any length may be left. Devices keep what has a receipt for a while
    # and must make it good.
    log = database.with_name(f"{database.name}-wal")
    size, trial = log.stat().st_size, database.parent / "cut"
    frame = int.from_bytes(log.read_bytes()[8:12], "big") + 24  # a page and its header
    while True:
        length = rng.choice(
            [
                rng.randint(0, size),
                # Near the end, at a frame's edge or beside it: a whole commit lost, or one cut in
                # its middle.
                max(0, size - rng.randint(0, 6) * frame - rng.choice([0, 0, 1, 999])),
            ]
        )
        shutil.rmtree(trial, ignore_errors=True)
        trial.mkdir()
        shutil.copy(database, trial / database.name)
        (trial / log.name).write_bytes(log.read_bytes()[:length])
        fine = fits(trial)
        shutil.rmtree(trial)
        if fine:
            break
    os.truncate(log, length)
    database.with_name(f"{database.name}-shm").unlink(
        missing_ok=True
    )  # memory does not outlive the power
    return f"{length} of {size} bytes of {log.name} left"


def _death(rng: random.Random) -> Failpoint:
    point = rng.choice(POINTS)
    return Failpoint.of(point, "leave", rng.randint(2, COORDINATOR[point]))


def _trained(folder: Path) -> int:
    store = Store(folder)
    try:
        return store.standing(RUN)[0]
    finally:
        store.close()


FILES: dict[str, Any] = {"journals": ("sqlite",)}  # what a server does with its disk is its affair
CASES = (
    Case("no room for the journal", no_room_for_the_journal, soak=10, root=True, **FILES),
    Case("no room for the outbox", no_room_for_the_outbox, soak=10, root=True),
    Case("no room to begin with", no_room_to_begin_with, soak=1, root=True, **FILES),
    Case("power loss at the coordinator", power_loss, soak=16, signed=True, **FILES),
    Case(
        "power loss everywhere",
        power_loss_everywhere,
        soak=8,
        brokers=("mosquitto",),
        signed=True,
        **FILES,
    ),
    Case("power loss at a device", power_loss_of_a_device, soak=10, signed=True),
)
