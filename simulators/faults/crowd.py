"""Fake agents as daemons: as many as needed, each on a thread of this process, or one as a process
that can be killed.

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
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from edge_agent.config import AgentSection, Config, DataSection, FleetSection, LimitsSection
from edge_agent.daemon import outbound
from edge_agent.daemon.loop import Daemon, DaemonDeps
from edge_agent.protocol.retry import RetryRules
from edge_agent.store import Store, lock
from edge_agent.worker.ipc import DataSurvey
from protofleet.contract import Contract
from protofleet.errors import FleetError
from protofleet.member import membership
from protofleet.member.sealed_link import sealed_link
from protofleet.mqtt.address import Address
from protofleet.mqtt.link.link import LinkSettings
from protofleet.mqtt.topics import Topics
from protofleet.trust.sequence import DAEMON
from protofleet.util.logs import Log
from protofleet.util.systemd import Notifier
from simulators.faults.fake_agent import Draw, FakeTraining, prototypes

QUICK = 0.3  # seconds to the second delivery: a case must not wait for a patient device


@dataclass(frozen=True)
class DeviceSite:
    """Where a device lives, and how it is made."""

    url: str
    fleet: str
    agent: str
    folder: Path  # its data directory
    draw_of: Callable[[Contract], Draw] = prototypes
    keepalive: int = 30
    now: Callable[[], datetime] = datetime.now
    data: DataSection = field(default_factory=DataSection)


def run_device(site: DeviceSite, started: Callable[[Daemon], None]) -> None:
    """Run one daemon to its end; `started` is given it before its first turn."""
    config = replace(
        Config(),
        agent=AgentSection(site.agent, str(site.folder)),
        fleet=FleetSection(site.fleet),
        limits=LimitsSection(min_free_mb=0),
        data=site.data,
    )
    directory_lock, store = lock(site.folder), Store(site.folder)
    try:
        store.check()
        boot = secrets.token_hex(8)
        store.take_over(boot)
        topics, address = Topics(site.fleet), Address.parse(site.url)
        member = membership.of_folder(site.folder)  # of a fleet by invitation
        settings = LinkSettings(
            will=outbound.will(topics, site.agent, boot), keepalive=site.keepalive
        )
        rules = RetryRules(site.agent, evaluate=False, first_wait=QUICK, longest_wait=2.0)
        with (site.folder / "log").open("a") as words:
            log, rng = Log(words), random.Random()
            speaker = member, DAEMON
            link = sealed_link(address, site.agent, settings, speaker, log, rng, _soon)
            training = FakeTraining(site.agent, boot, store, link.wake, site.draw_of)
            deps = DaemonDeps(
                *(config, link, store, training, log, Notifier({}), boot, True),
                now=site.now,
                member=member,
            )
            daemon = Daemon(deps, rules, DataSurvey((), 1))
            started(daemon)
            daemon.run()
    finally:
        store.close()
        directory_lock.close()


def _soon(attempt: int) -> float:
    """Seconds to the next connection: a case is not to wait."""
    return min(2.0, 0.1 * (attempt + 1))


@dataclass
class CrowdMember:
    """A daemon on a thread. `failed` holds what ended it, if anything but `stop` did."""

    site: DeviceSite
    thread: threading.Thread
    daemon: Daemon | None = None
    failed: str = ""

    def stop(self, patience: float = 15.0) -> None:
        """In good order."""
        if self.daemon is not None:
            self.daemon.stop()
        self.thread.join(patience)


@contextmanager
def crowd(sites: Sequence[DeviceSite]) -> Iterator[list[CrowdMember]]:
    """All of them, alive until the block is left."""
    members = [start_device(site) for site in sites]
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
            raise FleetError(f"{member.site.agent} failed: {member.failed}")


def start_device(site: DeviceSite) -> CrowdMember:
    """Start a daemon on a thread of its own; it is there when this returns."""
    ready = threading.Event()

    def live() -> None:
        def started(daemon: Daemon) -> None:
            member.daemon = daemon
            ready.set()

        try:
            run_device(site, started)
        except Exception:
            member.failed = traceback.format_exc()
        finally:
            ready.set()

    member = CrowdMember(site, threading.Thread(target=live, name=site.agent, daemon=True))
    member.thread.start()
    ready.wait(30)
    return member


def main() -> None:
    """One device in this process, until SIGTERM."""
    url, fleet, agent, folder = sys.argv[1:5]

    def started(daemon: Daemon) -> None:
        signal.signal(signal.SIGTERM, lambda *_: daemon.stop())

    try:
        run_device(DeviceSite(url, fleet, agent, Path(folder)), started)
    except FleetError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
