"""A real fleet that rollouts come to: broker, coordinator, and many devices in a few processes,
each with pictures of its own, a daemon, and something that classifies.

python -m simulators.rollouts.staged URL FLEET FOLDER NAME...
"""

# Everything is the product's own: the daemons (as threads), the processes that they start for tests
# and trials, the links. What stands in for `edge-agent infer` is a thread a device that classifies
# through the same files, notices what the daemon changed there, and counts its answers.
#
# Some of the cameras are dark: they see half the light. A bundle that is worse in the dark is worse
# on them alone.

from __future__ import annotations

import random
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from coordinator.service.control import ask
from edge_agent.config import DataSection
from edge_agent.updates.uses import AnswerCount
from protofleet.errors import FleetError
from protofleet.exchange import archive
from simulators.faults.crowd import DeviceSite, crowd
from simulators.faults.testbed import CaseProcess, Testbed, until
from simulators.live.fleet import toml
from simulators.rollouts.variants import Variant, write_variant

SAMPLES, TEST = 120, 40  # pictures of a device: those that it learns from, and those held back
LOOK_EVERY = 0.5  # seconds between two pictures that a device is shown
DARK_EVERY = 4  # every so manieth camera is dark
PATIENCE = 1800.0  # seconds; a busy machine takes its time
# How rollouts are begun here: the first group has a dark camera, which an operator would name.
TERMS: Mapping[str, Any] = {
    "groups": [0.05, 0.5, 1.0],
    "canaries": ["camera-001"],
    "error": 0.02,
    "trigger": 0.9,
    "patience": 1500.0,
    "trial": {"soak": 3.0},
}


@dataclass(frozen=True)
class StagedFleet:
    """A fleet in a folder; `hosts` are the processes that its devices live in."""

    testbed: Testbed
    names: tuple[str, ...]
    hosts: int

    @property
    def data(self) -> Path:
        """The coordinator's directory."""
        return self.testbed.data

    def write(self) -> None:
        """Settings, extractor, and every device's pictures."""
        folder = self.testbed.folder
        folder.mkdir(parents=True, exist_ok=True)
        first = write_variant("first", folder / "first.pfb", self.testbed.fleet)
        document = {
            "serve": {"fleet": self.testbed.fleet, "method": "fleet"},
            "broker": {"url": self.testbed.url},
            "contract": {"extractor": str(first)},
            "ledger": {"interval": 0.5, "settle": 5.0, "asked": 1},
        }
        (folder / "fleet.toml").write_text(toml(document))
        x, y = digits()
        rng = np.random.default_rng(3)
        for number, name in enumerate(self.names):
            home = self.testbed.home(name)
            home.mkdir(parents=True, exist_ok=True)
            rows = rng.permutation(len(y))[: SAMPLES + TEST]
            light = 0.5 if is_dark(number) else 1.0
            pictures, labels = (x[rows] * light).astype(np.uint8), y[rows].astype(str)
            parts = {"x_train": pictures[:SAMPLES], "x_test": pictures[SAMPLES:]}
            parts |= {"y_train": labels[:SAMPLES], "y_test": labels[SAMPLES:]}
            np.savez(home / "pictures.npz", **parts)

    def coordinator(self) -> CaseProcess:
        """Its coordinator, as a process."""
        words = ["coordinator", "serve", "--config", str(self.testbed.folder / "fleet.toml")]
        return self.testbed.process("coordinator", words)

    def host(self, number: int) -> CaseProcess:
        """A process with every device of this number, until it is killed."""
        names = self.names[number :: self.hosts]
        place = (self.testbed.url, self.testbed.fleet, str(self.testbed.folder))
        words = ["simulators.rollouts.staged", *place, *names]
        return self.testbed.process(f"host-{number}", words)

    def ask(self, command: str, **words: Any) -> dict[str, Any]:
        """The coordinator's answer; empty while none answers."""
        try:
            return ask(self.data, command, **words)
        except FleetError:
            return {}

    def runs(self) -> dict[str, str]:
        """What every device has in use, by its own disk."""
        return {n: archive.name_of(self.testbed.home(n) / "fleet.pfb") for n in self.names}

    def ready(self) -> None:
        """Every device has the first extractor, and has contributed."""

        def all_in() -> bool:
            ledger = self.ask("status").get("ledger") or {}
            return bool(ledger.get("devices") == len(self.names) and ledger.get("settled"))

        until(all_in, "every device's contribution", PATIENCE)


@dataclass(frozen=True)
class StagedOutcome:
    """What became of a rollout."""

    variant: Variant
    phase: str
    words: str
    touched: int  # devices that ever ran it
    first_group: int
    left_on: int  # devices that have it in use at the end
    devices: int
    seconds: float
    deaths: int
    before: float | None  # accuracy on labelled pictures, by what was in use and by the candidate
    after: float | None
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def as_it_should(self) -> bool:
        """A good one is everywhere; a bad one is nowhere, and was in the first group at most."""
        if self.variant == "good":
            return (self.phase, self.left_on) == ("done", self.devices)
        kept_back = (self.phase, self.left_on) == ("back", 0)
        return kept_back and self.touched <= self.first_group and bool(self.words)


def roll(
    fleet: StagedFleet,
    variant: Variant,
    processes: dict[str, CaseProcess],
    rng: random.Random,
    terms: Mapping[str, Any],
) -> StagedOutcome:
    """Roll a variant out while things are killed, and look at every device's disk at the end."""
    folder, began = fleet.testbed.folder, time.monotonic()
    file = write_variant(variant, folder / f"{variant}.pfb", fleet.testbed.fleet)
    name = archive.name_of(file)
    words = {"what": "start", "file": str(file), "by": "the bench", **terms}
    document = until(lambda: fleet.ask("rollout", **words), "a rollout that began", PATIENCE)
    number, deaths = document["rollout"], 0
    kill_at = [began + rng.uniform(2.0, 6.0)] if processes else []
    victims = rng.sample(sorted(processes), len(processes))
    end = began + PATIENCE
    while time.monotonic() < end:
        document = fleet.ask("rollout", what="status") or document
        ended = document["rollout"] == number and document["phase"] in ("done", "back")
        if kill_at and time.monotonic() >= kill_at[0] and victims:
            _killed(fleet, processes, victims.pop())
            deaths += 1
            kill_at = [time.monotonic() + rng.uniform(3.0, 10.0)]
        if ended and _at_rest(fleet, document, name):
            break
        time.sleep(0.2)
    history = until(lambda: fleet.ask("rollout", what="history", number=number, last=100_000), "")
    ran = {s["agent"] for s in history["steps"] if s["step"] in ("running", "proven")} - {""}
    wrong = {d["agent"]: d["words"] for d in document["devices"] if d["reason"]}
    return StagedOutcome(
        variant,
        document["phase"],
        document["words"],
        len(ran),
        sum(document["groups"][0][k] for k in ("waiting", "busy", "proven", "failed", "silent")),
        sum(in_use == name for in_use in fleet.runs().values()),
        len(fleet.names),
        time.monotonic() - began,
        deaths,
        document["before"],
        document["after"],
        wrong,
    )


def _at_rest(fleet: StagedFleet, document: Mapping[str, Any], name: str) -> bool:
    """Whether every device is where the rollout wants it."""
    runs = list(fleet.runs().values())
    if document["phase"] == "done":
        return all(in_use == name for in_use in runs)
    return name not in runs


def _killed(fleet: StagedFleet, processes: dict[str, CaseProcess], victim: str) -> None:
    """As `kill -9`, and a new life."""
    processes[victim].kill()
    again = fleet.coordinator() if victim == "coordinator" else fleet.host(int(victim[5:]))
    processes[victim] = again


@contextmanager
def staged(
    testbed: Testbed, devices: int, hosts: int
) -> Iterator[tuple[StagedFleet, dict[str, CaseProcess]]]:
    """A fleet that knows its classes, and its processes by name."""
    names = tuple(f"camera-{number:03}" for number in range(devices))
    fleet = StagedFleet(testbed, names, hosts)
    fleet.write()
    processes = {"coordinator": fleet.coordinator()}
    processes |= {f"host-{number}": fleet.host(number) for number in range(hosts)}
    try:
        fleet.ready()
        yield fleet, processes
    finally:
        for process in processes.values():
            with suppress(FleetError):
                process.stop()


def is_dark(number: int) -> bool:
    """Whether the camera of this number sees half the light."""
    return number % DARK_EVERY == 1


def digits() -> tuple[Any, Any]:
    """Handwritten digits of eight pixels a side, bright on black."""
    from sklearn.datasets import load_digits

    data = load_digits()
    return (data.images * 255 / 16).astype(np.uint8)[..., None], data.target


def looking(home: Path, stop: threading.Event) -> None:
    """What `edge-agent infer --watch` does, without a folder: show it pictures, one by one."""
    from edge_agent.inference.classifier import Classifier
    from edge_agent.updates.freshness import Freshness

    bundle = home / "fleet.pfb"
    with np.load(home / "pictures.npz") as pictures:
        images = pictures["x_test"]
    uses, fresh, at = AnswerCount(bundle), Freshness(bundle), 0
    classifier: Classifier | None = None
    while not stop.wait(LOOK_EVERY):
        with suppress(FleetError, OSError):
            if classifier is None:
                uses.begin(archive.name_of(bundle))
                classifier = Classifier(bundle)
                fresh.settle(classifier, uses)
            if fresh.changed():
                fresh.settle(classifier, uses)
            if classifier.loaded.labels:
                uses.asking(classifier.bundle.digest)
                classifier.look(images[at % len(images)][None])
                uses.answered(classifier.bundle.digest)
                at += 1


def sites(url: str, fleet: str, folder: Path, names: Sequence[str]) -> list[DeviceSite]:
    """Where devices of a folder live."""
    return [
        DeviceSite(
            url,
            fleet,
            name,
            folder / "agents" / name,
            data=DataSection(source=str(folder / "agents" / name / "pictures.npz")),
        )
        for name in names
    ]


def main() -> None:
    """These devices in this process, until SIGTERM."""
    url, fleet, folder, *names = sys.argv[1:]
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    places = sites(url, fleet, Path(folder), names)
    with crowd(places):
        eyes = [
            threading.Thread(target=looking, args=(place.folder, stop), daemon=True)
            for place in places
        ]
        for eye in eyes:
            eye.start()
        stop.wait()


if __name__ == "__main__":
    main()
