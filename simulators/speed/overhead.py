"""`protofleet bench overhead`: what a round costs beside its training: time, memory of idle
devices, bytes on the wire.

Everything is real: a broker, a coordinator, five device daemons with their training processes. Only
the data is next to nothing, so that a round is little but overhead.
"""

from __future__ import annotations

import re
import sqlite3
import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from coordinator.journal.journal import Journal
from coordinator.service.control import ask
from protofleet import wire
from protofleet.errors import FleetError
from protofleet.mqtt.broker.run import running_broker
from simulators.faults import invited
from simulators.live.fleet import FleetProcess, last_words, start, toml
from simulators.speed import raw
from simulators.speed.serving import serving

FLEET, CLASSES, INPUT, DIM, SAMPLES = "overhead", 10, 4, 64, 20
FIRST = 5  # rounds that are not counted: processes start, libraries load
IDLE = 2.0  # seconds after which a training process without work ends
PATIENCE = 120.0
LOOPBACK = Path("/sys/class/net/lo/statistics/rx_bytes")


@dataclass(frozen=True)
class Overhead:
    """A round, in milliseconds and bytes, and what an idle device holds, in megabytes."""

    rounds: int
    devices: int
    round_ms: float
    training_ms: float
    daemon_mb: float
    training_process_mb: float
    idle_mb: float
    loopback_bytes: float | None
    payload_bytes: float
    carried_bytes: float  # the payloads as often as they cross: into the broker, out to each reader

    @property
    def overhead_ms(self) -> float:
        """What is left of a round without its training."""
        return self.round_ms - self.training_ms


def bench_beside(
    rounds: int, devices: int, runs: int, folder: Path, tell: Callable[[str], None]
) -> dict[str, list[Overhead]]:
    """The same without and with signatures, in turn: a machine has moods."""
    measured: dict[str, list[Overhead]] = {"plain": [], "signed": []}
    for run in range(1, runs + 1):
        for name, rows in measured.items():
            tell(f"run {run} of {runs}: {name}")
            place = folder / f"{run}-{name}"
            place.mkdir()
            rows.append(bench_overhead(rounds, devices, place, signed=name == "signed"))
    return measured


def bench_overhead(rounds: int, devices: int, folder: Path, *, signed: bool = False) -> Overhead:
    """So many rounds of a fleet of processes; signed: of one by invitation."""
    with running_broker(folder / "broker", prefer="mosquitto") as broker:
        url = str(broker.address)
        if signed:
            homes = {name: _home(folder, name) / "agent-data" for name in _names(devices)}
            invited.invite(folder / "data", FLEET, homes, url)
        serve = {"run": "bench", "min_agents": devices, "rounds": rounds, "round_timeout": 600.0}
        with (
            serving(folder, url, FLEET, CLASSES, DIM, serve),
            _devices(folder, url, devices) as members,
        ):
            until = partial(_until, members, PATIENCE + rounds)
            until(lambda: _round(folder) > min(FIRST, rounds - 1))
            since, before = _round(folder), _loopback()
            until(lambda: ask(folder / "data", "status")["phase"] == "done")
            counted, after = rounds - since + 1, _loopback()
            pids = [member.process.pid for member in members]
            busy, children = (
                [raw.rss(pid) for pid in pids],
                [raw.rss(c) for pid in pids for c in _children(pid)],
            )
            until(lambda: not any(_children(pid) for pid in pids))
            idle = [raw.rss(pid) for pid in pids]
    up, down = _payloads(folder, rounds)
    return Overhead(
        rounds,
        devices,
        _round_ms(folder),
        _training_ms(members, rounds),
        statistics.median(busy),
        statistics.median(children or [0.0]),
        statistics.median(idle),
        None if before is None or after is None else (after - before) / counted,
        up + devices * down,
        2 * up + (1 + devices) * down,
    )


@contextmanager
def _devices(folder: Path, url: str, devices: int) -> Iterator[list[FleetProcess]]:
    rng = np.random.default_rng(0)
    with ExitStack() as stack:
        members = []
        for name in _names(devices):
            home = _home(folder, name)
            home.mkdir(parents=True, exist_ok=True)
            x, y = (
                rng.normal(size=(SAMPLES, INPUT)).astype(np.float32),
                np.arange(SAMPLES) % CLASSES,
            )
            np.savez(
                home / "samples.npz",
                x_train=x,
                y_train=y,
                x_test=x,
                y_test=y,
                classes=np.array([f"c{i}" for i in range(CLASSES)]),
            )
            settings = {
                "agent": {"id": name},
                "broker": {"url": url},
                "fleet": {"name": FLEET},
                "data": {"source": "samples.npz", "watch_seconds": 0.0},
                "limits": {"nice": 0, "min_free_mb": 0, "idle_seconds": IDLE},
            }
            (home / "agent.toml").write_text(toml(settings))
            member = start(
                name, folder, ["edge_agent", "run", "--config", str(home / "agent.toml")]
            )
            stack.callback(member.process.wait)
            stack.callback(member.process.terminate)
            members.append(member)
        yield members


def _names(devices: int) -> list[str]:
    return [f"agent-{number:02d}" for number in range(devices)]


def _home(folder: Path, name: str) -> Path:
    return folder / "agents" / name


def _round(folder: Path) -> int:
    return int(ask(folder / "data", "status")["round"])


def _until(members: list[FleetProcess], patience: float, there: Callable[[], bool]) -> None:
    """Wait for it, as long as all devices live."""

    def living() -> bool:
        for member in members:
            if member.process.poll() is not None:
                raise FleetError(f"{member.name} ended: {last_words(member.log)}")
        return there()

    raw.until(living, patience)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _loopback() -> int | None:
    """Bytes that crossed the interface so far, of everyone's."""
    return int(LOOPBACK.read_text()) if LOOPBACK.exists() else None


def _round_ms(folder: Path) -> float:
    """From one announcement to the next, in the middle."""
    with sqlite3.connect(f"file:{folder / 'data' / 'journal.db'}?mode=ro", uri=True) as db:
        opened = [float(at) for (at,) in db.execute("SELECT at FROM rounds ORDER BY round")]
    return 1e3 * statistics.median(
        later - at for at, later in pairwise(opened[min(FIRST, len(opened) - 2) :])
    )


def _training_ms(members: list[FleetProcess], rounds: int) -> float:
    """What the slowest training process said it took, in the middle."""
    slowest: dict[int, float] = {}
    for member in members:
        for round, seconds in re.findall(
            r"trained.* round=(\d+) seconds=([\d.]+)", member.log.read_text()
        ):
            slowest[int(round)] = max(slowest.get(int(round), 0.0), float(seconds))
    counted = [seconds for round, seconds in slowest.items() if round > min(FIRST, rounds - 1)]
    return 1e3 * statistics.median(counted or [0.0])


def _payloads(folder: Path, round: int) -> tuple[int, int]:
    """Bytes of a round's uploads, and of the state that came out of it."""
    journal = Journal.read(folder / "data")
    try:
        up = sum(len(journal.body(upload.blob) or b"") for upload in journal.uploads(round))
        state = journal.state(round)
    finally:
        journal.close()
    assert state is not None  # it was the last round
    envelope = wire.Envelope(
        t="global", fleet=FLEET, run="bench", epoch=1, round=round, base=state[1].base
    )
    return up, len(wire.encode(envelope, state[1].shared))
