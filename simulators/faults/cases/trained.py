"""The same with real devices, torch and all: coordinator, daemon or training process die while
rounds go on.

Among the methods are ones with rounds without exchange (gfpl), with a part of the state for each
device (fedic) and with a memory of their own (moon).
"""

from __future__ import annotations

import json
import os
import random
import signal
from pathlib import Path
from typing import Any

from coordinator.journal.journal import Journal
from coordinator.service.control import ask
from protofleet.contract import Training
from protofleet.errors import FleetError
from simulators.faults.case import Attempt, Case, pause
from simulators.faults.testbed import until
from simulators.faults.verdict import PromiseBroken
from simulators.live import fleet, schedule
from simulators.live.fleet import FleetProcess
from simulators.run import rounds
from simulators.run.config import LabConfig, Run
from simulators.run.partitions import PartitionOptions
from simulators.run.setup import Setup, prepare

# Settings under which each of them exchanges something within ROUNDS rounds.
METHODS: dict[str, tuple[str, ...]] = {
    "gfpl": ("start=2", "interval=2"),
    "fedic": (),
    "moon": (),
    "fedproto": (),
}
ROUNDS = 3


def real_devices(attempt: Attempt) -> str:
    """Two deaths at seeded moments; nobody is lost, so the laboratory's own run is the measure."""
    rng = attempt.rng()
    method = list(METHODS)[attempt.seed % len(METHODS)]
    run = Run(
        method=method,
        dataset="digits",
        agents=3,
        partition="dirichlet",
        rounds=ROUNDS,
        seed=attempt.seed,
    )
    config = LabConfig(
        run, PartitionOptions(alpha=0.5), Training(lr=0.03), settings=METHODS[method]
    )
    setup = prepare(config)
    folder = attempt.folder / "fleet"
    with attempt.broker() as broker:
        folder.mkdir()
        fleet.write(setup, folder, str(broker.address))
        with fleet.members(setup, folder) as members:
            deaths = [_death(setup, folder, members, round, rng) for round in range(1, ROUNDS)]
            until(lambda: _status(folder).get("phase") == "done", "the last round", 120.0)
    _verdict(setup, folder)
    return f"{method}: {', '.join(deaths)}"


def _death(
    setup: Setup, folder: Path, members: list[FleetProcess], round: int, rng: random.Random
) -> str:
    """Somebody dies a little after a round was opened, and is started again."""
    until(lambda: _status(folder).get("round", 0) >= round, f"round {round}", 120.0)
    who = rng.choice(["coordinator", "device", "training"])
    pause(rng.uniform(0.0, 0.6))
    index = 0 if who == "coordinator" else rng.randrange(1, len(members))
    victim = members[index]
    if who == "training":
        pid = _training(folder, victim.name)
        if pid is None:
            return "no training to be killed"
        os.kill(pid, signal.SIGKILL)
        return f"training of {victim.name}"
    return restarted(folder, members, index)


def restarted(folder: Path, members: list[FleetProcess], index: int) -> str:
    """`kill -9` of a member, and its next life."""
    victim = members[index]
    victim.process.kill()
    victim.process.wait()
    command = ["coordinator", "serve", "--config", str(folder / "fleet.toml")]
    if index:
        command = [
            "edge_agent",
            "run",
            "--config",
            str(folder / "agents" / victim.name / "agent.toml"),
        ]
    members[index] = fleet.start(victim.name, folder, command)
    return victim.name


def _training(folder: Path, agent: str) -> int | None:
    """The process a device trains in, if it is still there."""
    try:
        status = json.loads((folder / "agents" / agent / "agent-data" / "status.json").read_text())
        pid = status["training_pid"]
        alive = (
            pid is not None
            # A number alone may have been given to another process meanwhile.
            and "edge_agent.worker.runner" in Path(f"/proc/{pid}/cmdline").read_text()
        )
    except (OSError, ValueError, KeyError):
        return None
    return int(pid) if alive else None


def _status(folder: Path) -> dict[str, Any]:
    try:
        return ask(folder / "coordinator-data", "status")
    except FleetError:  # it is not there, or fusing
        return {}


def _verdict(setup: Setup, folder: Path) -> None:
    journal = Journal.read(folder / "coordinator-data")
    try:
        recorded = journal.state_hashes()
    finally:
        journal.close()
    followed = schedule.of_run(setup, folder / "coordinator-data")
    if followed != recorded:
        raise PromiseBroken(
            f"by its own schedule the laboratory comes to other states: {followed} and {recorded}"
        )
    plain = rounds.run(setup, rounds.LabOptions(), lambda row: None).state.sha256
    if recorded[max(recorded)] != plain:
        raise PromiseBroken(
            f"nobody was lost, but the state is {recorded[max(recorded)][:12]} and not {plain[:12]}"
        )


CASES = (Case("real devices", real_devices, soak=8),)
