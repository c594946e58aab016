"""The same run on a real fleet: agents and a coordinator as processes of their own, over a real
broker on this machine.

What the lab calls in memory happens here by the commands that a person would type; it ends in the
same state, to the bit. Everything lives in one folder: a data set and a settings file for every
device, the coordinator's journal, logs.
"""

# Theory of operation
#
# One folder is one fleet:
#
#     fleet.toml                       the coordinator's settings
#     coordinator-data/                its journal and control socket
#     agents/NAME/agent.toml           a device's settings
#     agents/NAME/samples.npz          its samples, as a person would hold them
#     agents/NAME/rows.npz             which of them are for training, validation and test
#     agents/NAME/agent-data/          its store
#     logs/NAME.log                    what each process said
#     broker/                          the broker's own files
#
# To end in the laboratory's state nothing may depend on the clock. So a round waits for everybody
# (`min_agents` is all, an hour for a round, no pause between two), devices do not watch their
# folders for new samples, and `rows.npz` pins the split, which a device would otherwise draw
# itself. Limits that would make a device decline on a busy or full machine are off.
#
# The fleet is watched by asking the coordinator for its status, ten times a second. Between two
# looks several rounds may have ended, and accuracies come in after the round they are of. Rows are
# shown to the watcher as far as they are known, and set right from the journal when the run is
# over; that is why `_filled` replaces nearly all of a row.
#
# Nothing may hang: a member that ends is named with its last words, and a fleet that does not move
# for PATIENCE (and ten seconds a device, since they all share this machine) is given up, with the
# names of those it waits for. No member ends by itself, not even after the last round: the
# coordinator stays to be asked, and devices wait for a next run.

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from coordinator.journal.journal import Journal
from coordinator.rounds.meeting import WENT_ON
from coordinator.service.control import NotRunning, ask
from protofleet.errors import FleetError
from protofleet.mqtt.broker.run import Prefer, running_broker
from protofleet.recipe import Turn
from protofleet.settings.fields import to_plain
from protofleet.values.prototypes import count_floats
from protofleet.wire import decode
from simulators.run.partitions import Shard
from simulators.run.result import Outcome, Row, Traffic
from simulators.run.rounds import Watch, published
from simulators.run.setup import RUN_ID, Setup, samples_of

FLEET = "lab"
PATIENCE = 120.0  # seconds for a round in which nothing trains for longer than that
POLL = 0.1
OF_OTHERS = ("fleet", "run", "masks", "budget")  # what of a contract other settings say
PROMISED = ("epsilon", "delta", "clip", "publications")  # settings of a budget


@dataclass(frozen=True)
class FleetProcess:
    """A process of the fleet, and where its log is."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path


def run(setup: Setup, folder: Path, watch: Watch, prefer: Prefer = "auto") -> Outcome:
    """All rounds on a live fleet; everything is stopped at the end."""
    if setup.recipe.traits.frozen and setup.private is None:
        from simulators.live import contributions  # which is made of this module's parts

        return contributions.run(setup, folder, watch, prefer)
    began = time.perf_counter()
    with running_broker(folder / "broker", prefer=prefer) as broker:
        write(setup, folder, str(broker.address))
        with members(setup, folder) as fleet:
            rows = _watched(setup, folder, fleet, watch)
    state = _final(folder)
    if setup.recipe.traits.frozen:  # devices of a budget's rounds report nothing: it is done here
        from coordinator.service.extractors import RANDOM
        from simulators.live import contributions

        last = contributions.measured(setup, folder / "coordinator-data" / RANDOM, state)
        rows[-1] = replace(
            rows[-1],
            accuracy=last.accuracy,
            accuracy_std=last.accuracy_std,
            per_agent=last.per_agent,
        )
    return Outcome(setup, state, tuple(rows), time.perf_counter() - began, 0)


def write(setup: Setup, folder: Path, url: str) -> None:
    """The settings files of the coordinator and of every device, and the devices' data."""
    run = setup.config.run
    contract, budget = to_plain(setup.contract), setup.config.budget
    contract = {k: v for k, v in contract.items() if k not in OF_OTHERS}
    trust = {name: getattr(budget, name) for name in PROMISED} if budget.epsilon else {}
    (folder / "fleet.toml").write_text(
        toml(
            {
                "serve": {
                    "fleet": FLEET,
                    "method": run.method,
                    "run": RUN_ID,
                    "rounds": run.rounds,
                    "min_agents": run.agents,
                    "participation": run.participation,
                    "round_timeout": 3600.0,
                    "every": 0.0,
                },
                "broker": {"url": url},
                "contract": contract,
                # Of a ledger everybody counts, and soon: nobody else is waited for.
                "ledger": {"settle": 2.0, "asked": 1_000_000},
                "admission": to_plain(setup.config.admission),
                "trust": {**to_plain(setup.config.masks), **trust},
                "settings": to_plain(setup.hyper),
            }
        )
    )
    for shard in setup.partition.shards:
        home = folder / "agents" / shard.agent
        home.mkdir(parents=True, exist_ok=True)
        _write_data(setup, shard, home)
        (home / "agent.toml").write_text(
            toml(
                {
                    "agent": {"id": shard.agent},
                    "broker": {"url": url},
                    "fleet": {"name": FLEET},
                    "data": {
                        "source": "samples.npz",
                        "rows": "rows.npz",
                        "backbone": setup.backbones[shard.agent],
                        "watch_seconds": 0.0,
                    },
                    "limits": {"nice": 0, "min_free_mb": 0},
                }
            )
        )


@contextmanager
def members(setup: Setup, folder: Path) -> Iterator[list[FleetProcess]]:
    """The processes, started; and ended again, whatever happens."""
    fleet = [
        start(
            "coordinator", folder, ["coordinator", "serve", "--config", str(folder / "fleet.toml")]
        )
    ]
    try:
        for agent in setup.agents:
            config = folder / "agents" / agent / "agent.toml"
            fleet.append(start(agent, folder, ["edge_agent", "run", "--config", str(config)]))
        yield fleet
    finally:
        for member in reversed(fleet):
            member.process.terminate()
        for member in fleet:
            try:
                member.process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                member.process.kill()
                member.process.wait()


def start(name: str, folder: Path, command: list[str]) -> FleetProcess:
    """A process of ours, its words in a log file."""
    log = folder / "logs" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as words:
        return FleetProcess(
            name,
            subprocess.Popen([sys.executable, "-m", *command], stdout=words, stderr=words),
            log,
        )


def _watched(setup: Setup, folder: Path, fleet: list[FleetProcess], watch: Watch) -> list[Row]:
    """Rows as rounds end; an error names who died or did not answer."""
    rows: list[Row] = []
    rounds, since, before = setup.config.run.rounds, time.monotonic(), (-1, -1)
    began, counted_bytes = time.perf_counter(), 0
    while True:
        time.sleep(POLL)
        expect_alive(fleet)
        status = status_of(folder)
        position = (0, 0) if status is None else (status["round"], status["answered"])
        if position != before:
            before, since = position, time.monotonic()
        if time.monotonic() - since > PATIENCE + 10 * setup.config.run.agents:
            missing = ", ".join(status["missing"]) if status else "the coordinator"
            raise FleetError(
                f"round {position[0]} does not go on: waiting for {missing}",
                f"logs: {folder / 'logs'}",
            )
        if status is None:
            continue
        done = status["phase"] == "done"
        rounds = status["rounds"] or rounds  # none opens once a budget is spent
        # Several rounds may have ended since the last look. The status knows the accuracy of the
        # newest state and the bytes of all rounds together; `_filled` sets it right in the end.
        for number in range(len(rows) + 1, (rounds if done else status["round"] - 1) + 1):
            row = Row(
                number,
                accuracy=status["accuracy"] if number == status["state_round"] else {},
                up_bytes=status["upload_bytes"] - counted_bytes,
                seconds=time.perf_counter() - began,
            )
            began, counted_bytes = time.perf_counter(), status["upload_bytes"]
            rows.append(row)
            watch(row)
        if done and _all_measured(status, setup, since):
            last = {"accuracy": status["accuracy"], "std": status["accuracy_std"]}
            return _filled(setup, folder, rows, last)


def expect_alive(fleet: list[FleetProcess]) -> None:
    for member in fleet:
        if member.process.poll() is not None:
            raise FleetError(
                f"{member.name} ended: {last_words(member.log)}", f"its log: {member.log}"
            )


def status_of(folder: Path) -> dict[str, Any] | None:
    """What the coordinator says of itself; None before it can be asked."""
    try:
        return ask(folder / "coordinator-data", "status")
    except NotRunning:
        return None


def _all_measured(status: Mapping[str, Any], setup: Setup, since: float) -> bool:
    """Whether every device has reported on the last state; not waited for longer than a little
    while.
    """
    if setup.private is not None:  # nobody says how well it classifies
        return True
    return status["reported"] >= setup.config.run.agents or time.monotonic() - since > 20


def _filled(setup: Setup, folder: Path, rows: list[Row], last: Mapping[str, Any]) -> list[Row]:
    """What the journal knows of each round: accuracy, bytes and floats."""
    journal = reader(folder)
    try:
        measured = {e["round"]: e for e in journal.events(10**6) if e["kind"] == "measured"}
        filled = []
        for row in rows:
            stored = [journal.body(k.blob) for k in journal.uploads(row.round)]
            bodies = [body for body in stored if body]
            letters = _letters(journal, row.round)
            messages = [decode(body) for body in bodies]
            parts = [m.body for m in messages if m.envelope.t == "upload"]
            measures = (
                last if row is rows[-1] else measured.get(row.round, {"accuracy": {}, "std": {}})
            )
            state, turn = journal.state(row.round), Turn(setup.contract, setup.hyper, row.round)
            down, counted = Traffic(), 0
            if state is not None and state[0] == row.round:
                down = published(setup, state[1], row.round)
                counted = setup.recipe.paper_floats(turn, parts, state[1])
            filled.append(
                replace(
                    row,
                    epsilon=0.0 if setup.private is None else setup.private.spent(turn),
                    accuracy=measures["accuracy"],
                    accuracy_std={n: measures["std"].get(n, 0.0) for n in measures["accuracy"]},
                    up_bytes=sum(map(len, [*bodies, *letters])),
                    up_floats=sum(map(count_floats, parts)),
                    down_bytes=down.bytes,
                    down_floats=down.floats,
                    paper_floats=counted,
                )
            )
        return filled
    finally:
        journal.close()


def _letters(journal: Journal, round: int) -> list[bytes]:
    """What devices said in the round's group, where its sums are masked."""
    group = journal.minutes.group(round)
    minutes = None if group is None else journal.minutes_of(group)
    return [minute.body for minute in minutes or () if minute.kind != WENT_ON]


def _final(folder: Path) -> Any:
    journal = reader(folder)
    try:
        snapshot = journal.state()
    finally:
        journal.close()
    if snapshot is None:
        raise FleetError("the fleet left no state", f"logs: {folder / 'logs'}")
    return snapshot[1]


def reader(folder: Path) -> Journal:
    return Journal.read(folder / "coordinator-data")


def _write_data(setup: Setup, shard: Shard, home: Path) -> None:
    """This device's own samples, as a person's .npz would hold them, and which of them are for
    what.
    """
    parts = [
        setup.training_samples(shard),
        samples_of(setup.data, shard, shard.validation),
        setup.test_samples(shard),
    ]
    (x_train, y_train), (x_check, y_check), (x_test, y_test) = parts
    np.savez(
        home / "samples.npz",
        x_train=np.concatenate([x_train, x_check]),
        y_train=np.concatenate([y_train, y_check]),
        x_test=x_test,
        y_test=y_test,
        classes=np.array(setup.data.classes),
    )
    ends = np.cumsum([len(y) for _, y in parts])
    train, validation, test = np.split(np.arange(ends[-1]), ends[:-1])
    np.savez(home / "rows.npz", train=train, validation=validation, test=test)


def toml(document: Mapping[str, Any], path: str = "") -> str:
    """Plain values as TOML; what is none is left out."""
    lines = [
        f"{k} = {json.dumps(v)}"
        for k, v in document.items()
        if v is not None and not isinstance(v, Mapping)
    ]
    for name, section in document.items():
        if isinstance(section, Mapping):
            whole = f"{path}.{name}" if path else name
            lines += ["", f"[{whole}]", toml(section, whole)]
    return "\n".join(lines) + "\n"


def last_words(log: Path) -> str:
    """The last line of a log."""
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
