"""Pupils as daemons: as many as wanted, each on a thread of this process, or one as a process that
can be killed.

python -m simulators.faults.crowd URL FLEET AGENT FOLDER
"""

from __future__ import annotations

import random
import secrets
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from edge_agent.config import AgentSection, Config, FleetSection, LimitsSection
from edge_agent.daemon import outbound
from edge_agent.daemon.loop import Daemon, DaemonDeps
from edge_agent.protocol.retry import RetryRules
from edge_agent.store import Store, lock
from edge_agent.worker.ipc import DataSurvey
from protofleet.contract import Contract
from protofleet.errors import FleetError
from protofleet.mqtt.address import Address
from protofleet.mqtt.link.link import Link, LinkSettings
from protofleet.mqtt.topics import Topics
from protofleet.util.logs import Log
from protofleet.util.systemd import Notifier
from simulators.faults.fake_agent import FakeTraining, Lesson, prototypes

QUICK = 0.3  # seconds to the second delivery: a case must not wait for a patient device


@dataclass(frozen=True)
class DeviceSite:
    """Where a pupil lives, and how it is made."""

    url: str
    fleet: str
    agent: str
    folder: Path  # its data directory
    lesson_of: Callable[[Contract], Lesson] = prototypes
    keepalive: int = 30
    now: Callable[[], datetime] = datetime.now


def be(place: DeviceSite, made: Callable[[Daemon], None]) -> None:
    """Run one daemon to its end; `made` is given it before it starts."""
    config = replace(
        Config(),
        agent=AgentSection(place.agent, str(place.folder)),
        fleet=FleetSection(place.fleet),
        limits=LimitsSection(min_free_mb=0),
    )
    held, store = lock(place.folder), Store(place.folder)
    try:
        store.check()
        boot = secrets.token_hex(8)
        store.take_over(boot)
        topics, address = Topics(place.fleet), Address.parse(place.url)
        link = Link(
            address,
            place.agent,
            LinkSettings(will=outbound.will(topics, place.agent, boot), keepalive=place.keepalive),
            rng=random.Random(),
            backoff=lambda attempt: min(2.0, 0.1 * (attempt + 1)),
        )
        desk = FakeTraining(place.agent, boot, store, link.wake, place.lesson_of)
        rules = RetryRules(place.agent, evaluate=False, first_wait=QUICK, longest_wait=2.0)
        with (place.folder / "log").open("a") as words:
            around = DaemonDeps(
                config, link, store, desk, Log(words), Notifier({}), boot, True, now=place.now
            )
            daemon = Daemon(around, rules, DataSurvey((), 1))
            made(daemon)
            daemon.run()
    finally:
        store.close()
        held.close()


@dataclass
class CrowdMember:
    """A daemon on a thread. `failed` holds what ended it, if anything but `stop` did."""

    place: DeviceSite
    thread: threading.Thread
    daemon: Daemon | None = None
    failed: str = ""

    def stop(self, patience: float = 15.0) -> None:
        """In good order."""
        if self.daemon is not None:
            self.daemon.stop()
        self.thread.join(patience)


@contextmanager
def crowd(places: Sequence[DeviceSite]) -> Iterator[list[CrowdMember]]:
    """All of them, alive until the block is left."""
    members = [enter(place) for place in places]
    try:
        yield members
    finally:
        for member in members:
            if member.daemon is not None:
                member.daemon.stop()
            if member.failed:
                print(member.failed, file=sys.stderr)
        for member in members:
            member.stop()
    for member in members:
        if member.failed:
            raise FleetError(f"{member.place.agent} failed: {member.failed}")


def enter(place: DeviceSite) -> CrowdMember:
    """Start a daemon on a thread of its own; it is there when this returns."""
    ready = threading.Event()

    def live() -> None:
        def made(daemon: Daemon) -> None:
            member.daemon = daemon
            ready.set()

        try:
            be(place, made)
        except Exception:
            member.failed = traceback.format_exc()
        finally:
            ready.set()

    member = CrowdMember(place, threading.Thread(target=live, name=place.agent, daemon=True))
    member.thread.start()
    ready.wait(30)
    return member


def main() -> None:
    """One pupil in this process, until SIGTERM."""
    url, fleet, agent, folder = sys.argv[1:5]

    def made(daemon: Daemon) -> None:
        signal.signal(signal.SIGTERM, lambda *_: daemon.stop())

    try:
        be(DeviceSite(url, fleet, agent, Path(folder)), made)
    except FleetError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
