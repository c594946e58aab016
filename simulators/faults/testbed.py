"""A small fleet to be tried: what its coordinator is told, its processes, and who its devices
are.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from coordinator.service.control import ask
from protofleet.contract import Contract, Input
from protofleet.errors import FleetError
from protofleet.settings.fields import to_plain
from simulators.faults import invited
from simulators.faults.crowd import DeviceSite
from simulators.faults.failpoint import Failpoint
from simulators.live.fleet import last_words, toml

RUN = "trial"
PATIENCE = 60.0  # seconds; nothing waits that long when all is well
Wrap = Callable[[list[str]], list[str]]


def as_it_is(command: list[str]) -> list[str]:
    """A command in no particular surroundings."""
    return command


class Stuck(FleetError):
    """A fleet did not get where it should have in time."""

    code = "stuck"


@dataclass(frozen=True)
class Testbed:
    """Where a case plays: its folder, its broker, and how its rounds go."""

    folder: Path
    url: str
    fleet: str = "trial"
    agents: int = 3
    rounds: int = 3
    serve: Mapping[str, Any] = field(default_factory=dict)
    trust: Mapping[str, Any] = field(default_factory=dict)
    places: Sequence[str] = ()  # sites that its devices are at
    packet: int = 131_072
    journal: str = ""  # address of its server; else a file
    processes: list[CaseProcess] = field(default_factory=list)  # every process there was

    @property
    def names(self) -> list[str]:
        return [f"pupil-{i:03}" for i in range(self.agents)]

    @property
    def data(self) -> Path:
        """The coordinator's directory."""
        return self.folder / "coordinator-data"

    def home(self, agent: str) -> Path:
        """A device's data directory."""
        return self.folder / "agents" / agent

    def contract(self) -> Contract:
        """What this fleet agrees on."""
        classes = tuple(f"class-{i}" for i in range(5))
        # As small as can be: a case is about messages, and its fleet trains nothing.
        return Contract(self.fleet, RUN, 7, classes, Input("vector", (4,)), embedding=8)

    def sites(self, url: str | None = None, **how: Any) -> list[DeviceSite]:
        """Its devices."""
        return [
            DeviceSite(url or self.url, self.fleet, name, self.home(name), **how)
            for name in self.names
        ]

    def write(self) -> None:
        """The coordinator's settings."""
        self.folder.mkdir(parents=True, exist_ok=True)
        contract = {k: v for k, v in to_plain(self.contract()).items() if k not in ("fleet", "run")}
        serve = {
            "fleet": self.fleet,
            "method": "fedproto",
            "run": RUN,
            "rounds": self.rounds,
            "min_agents": len(self.places) or self.agents,
            # As long as a case has patience: where nobody is lost, no round may close early.
            "round_timeout": 60.0,
            "quorum": 1.0,
            "every": 0.0,
            "journal": self.journal,
            **self.serve,
        }
        document = {
            "serve": serve,
            "broker": {"url": self.url, "packet": self.packet},
            "contract": contract,
            "trust": dict(self.trust),
            "admission": {"sites": list(self.places)},
        }
        (self.folder / "fleet.toml").write_text(toml(document))

    def beside(self) -> Testbed:
        """The same fleet, to be served from another folder, with the same devices."""
        other = replace(self, folder=self.folder.parent / "other")
        other.write()
        (other.folder / "agents").symlink_to(self.folder / "agents", target_is_directory=True)
        return other

    def invite(self, *others: str) -> None:
        """Make it a fleet by invitation: its devices, and others, are members from the start."""
        homes = {name: self.home(name) for name in (*self.names, *others)}
        invited.invite(self.data, self.fleet, homes, self.url)

    def coordinator(
        self, failpoint: Failpoint | None = None, *words: str, wrap: Wrap = as_it_is
    ) -> CaseProcess:
        """Its coordinator as a process that ends with the run; with a failpoint, one that dies
        there.
        """
        serve = [
            "coordinator",
            "serve",
            "--config",
            str(self.folder / "fleet.toml"),
            "--until-done",
            *words,
        ]
        command = (
            serve if failpoint is None else ["simulators.faults.failpoint", str(failpoint), *serve]
        )
        return self.process("coordinator", command, wrap)

    def device(
        self, agent: str, failpoint: Failpoint | None = None, wrap: Wrap = as_it_is
    ) -> CaseProcess:
        """One of its devices as a process of its own."""
        words = ["simulators.faults.crowd", self.url, self.fleet, agent, str(self.home(agent))]
        self.home(agent).mkdir(parents=True, exist_ok=True)
        command = (
            words if failpoint is None else ["simulators.faults.failpoint", str(failpoint), *words]
        )
        return self.process(agent, command, wrap)

    def process(self, name: str, command: Sequence[str], wrap: Wrap = as_it_is) -> CaseProcess:
        """A process of this name; whatever an earlier one said stays in the log."""
        log = self.folder / f"{name}.log"
        # Appended to: the lives of one process are read as one log.
        with log.open("ab") as words:
            process = subprocess.Popen(
                wrap([sys.executable, "-m", *command]), stdout=words, stderr=words
            )
        self.processes.append(CaseProcess(name, process, log))
        return self.processes[-1]

    def status(self) -> dict[str, Any]:
        """What the running coordinator says of itself; empty if none answers."""
        try:
            return ask(self.data, "status")
        except FleetError:  # none, or one that is busy
            return {}


@dataclass(frozen=True)
class CaseProcess:
    """A process of the testbed, and where its words go."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def kill(self) -> None:
        """As `kill -9`."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """In good order; its exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Stuck(f"{self.name} does not end when told to") from None

    def ended(self, patience: float = PATIENCE) -> int:
        """Its exit code, once it has ended by itself."""
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Stuck(
                f"{self.name} does not end: {last_words(self.log)}", f"its log: {self.log}"
            ) from None

    def done(self, patience: float = PATIENCE) -> None:
        """It ended as it should."""
        code = self.ended(patience)
        if code:
            raise Stuck(
                f"{self.name} ended with {code}: {last_words(self.log)}", f"its log: {self.log}"
            )

    def dies(self) -> bool:
        """It came to its failpoint; a case whose fault never happens has shown nothing."""
        code = self.ended()
        if not self.killed:
            raise Stuck(
                f"{self.name} ended with {code} before the instant at which it was to die came"
            )
        return True

    @property
    def over(self) -> bool:
        """Whether it has ended, however."""
        return self.process.poll() is not None

    @property
    def killed(self) -> bool:
        """Whether it ended by SIGKILL."""
        return self.process.poll() == -signal.SIGKILL


def until(holds: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
    """Wait for something to be so."""
    end = time.monotonic() + patience
    while True:
        answer = holds()
        if answer:
            return answer
        if time.monotonic() > end:
            raise Stuck(f"still waiting for {what}")
        time.sleep(0.02)
