"""A fleet of sites to be tried: a coordinator on top, sites below it with brokers of their own, and
devices at each; and what it should come to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coordinator.errors import JournalError
from coordinator.journal.journal import Journal
from coordinator.service.control import ask
from coordinator.service.replay import replayed
from protofleet.errors import FleetError
from protofleet.mqtt.broker.mosquitto import Listening
from protofleet.mqtt.broker.run import Prefer, running_broker
from simulators.faults import invited
from simulators.faults.failpoint import Failpoint
from simulators.faults.testbed import CaseProcess, Testbed
from simulators.faults.verdict import PromiseBroken
from simulators.live.fleet import toml
from simulators.trees.contributors import CLASSES, RULES, Contributor, bundle, under_one

FLEET, TOP = "tree", "top"


@dataclass(frozen=True)
class TreeShape:
    """Who is below whom: of each site what is above it, and who is at it."""

    parents: Mapping[str, str]
    devices: Mapping[str, Sequence[str]]

    @staticmethod
    def of(sites: int, devices: int) -> TreeShape:
        """Sites below one top, devices dealt to them evenly."""
        names = [f"site-{i}" for i in range(sites)]
        dealt: dict[str, list[str]] = {name: [] for name in names or [TOP]}
        for i in range(devices):
            dealt[list(dealt)[i % len(dealt)]].append(f"pupil-{i:03}")
        return TreeShape(dict.fromkeys(names, TOP), dealt)

    @property
    def names(self) -> list[str]:
        """Of all devices."""
        return sorted(name for some in self.devices.values() for name in some)


@dataclass(frozen=True)
class Tree:
    """Where it plays: a folder for each coordinator, and a broker each."""

    folder: Path
    shape: TreeShape
    urls: Mapping[str, str]
    processes: list[CaseProcess] = field(default_factory=list)

    def data(self, name: str) -> Path:
        """A coordinator's directory."""
        return self.folder / name / "coordinator-data"

    def write(self, settings: Mapping[str, Any] | None = None) -> None:
        """What each coordinator is told."""
        extractor = bundle(self.folder / "extractor.pfb")
        for name, url in self.urls.items():
            (self.folder / name).mkdir(parents=True, exist_ok=True)
            below = [site for site, parent in self.shape.parents.items() if parent == name]
            document: dict[str, Any] = {
                "serve": {"fleet": FLEET, "enrol": "auto"},
                "broker": {"url": url},
                "admission": {"sites": below},
                "ledger": RULES,
            }
            if name == TOP:
                contract = {"classes": list(CLASSES), "extractor": str(extractor)}
                document |= {"contract": contract, "settings": dict(settings or {})}
            else:
                above = self.urls[self.shape.parents[name]]
                document["relay"] = {"url": above, "name": name}
            (self.folder / name / "fleet.toml").write_text(toml(document))

    def invite(self) -> None:
        """Make each of them a fleet by invitation, with all below it as its members."""
        for name, url in self.urls.items():
            sites = [site for site, parent in self.shape.parents.items() if parent == name]
            homes = {site: self.data(site) for site in sites}
            homes |= {one: self.home(one) for one in self.shape.devices.get(name, ())}
            invited.invite(self.data(name), FLEET, homes, url)

    def home(self, agent: str) -> Path:
        """A device's directory."""
        return self.folder / "devices" / agent

    def start(self, name: str, failpoint: Failpoint | None = None) -> CaseProcess:
        """One of its coordinators; with a failpoint, one that dies there."""
        verb = "serve" if name == TOP else "relay"
        words = ["coordinator", verb, "--config", str(self.folder / name / "fleet.toml")]
        if failpoint is not None:
            words = ["simulators.faults.failpoint", str(failpoint), *words]
        bed = Testbed(self.folder, self.urls[name], FLEET, processes=self.processes)
        return bed.process(name, words)

    def contributors(self, seed: int = 0) -> list[Contributor]:
        """Its devices, each at its own broker."""
        return [
            Contributor(self.urls[place], FLEET, name, self.home(name), seed)
            for place, some in self.shape.devices.items()
            for name in some
        ]

    def status(self, name: str = TOP) -> dict[str, Any]:
        """What a running coordinator says of itself; empty if none answers."""
        try:
            return ask(self.data(name), "status")
        except FleetError:  # none, or one that is busy
            return {}

    def comes_to(self, state: str) -> bool:
        """Whether the top has this state, of everybody's newest word and counts."""
        ledger = self.status().get("ledger") or {}
        return bool(ledger.get("settled")) and ledger.get("state_sha256") == state

    def expected(self, seeds: Mapping[str, int | None], buckets: int = 1) -> str:
        """What that is."""
        return under_one(FLEET, seeds, buckets)

    def judge(self, devices: Sequence[Contributor]) -> None:
        """What has a receipt is in its coordinator's journal, and every journal is sound."""
        where = {name: place for place, some in self.shape.devices.items() for name in some}
        for name in self.urls:
            try:
                journal = Journal.read(self.data(name))
            except JournalError:
                continue
            try:
                wrong = [r for r in replayed(journal) if r.verdict == "differs"]
                if wrong:
                    raise PromiseBroken(f"{name}: a replay comes to another state")
                held = {r.agent: r.digest for r in journal.ledger.contributions(_lineage(journal))}
                ours = [one for one in devices if where[one.agent] == name]
                for one in ours:
                    if one.seed is not None and one.taken and held.get(one.agent) != one.taken:
                        words = f"{one.agent} has a receipt of {name}, whose journal has another"
                        raise PromiseBroken(words)
            finally:
                journal.close()


@contextmanager
def tree(
    folder: Path,
    shape: TreeShape,
    processes: list[CaseProcess],
    *,
    settings: Mapping[str, Any] | None = None,
    prefer: Prefer = "mosquitto",
    signed: bool = False,
) -> Iterator[Tree]:
    """Its brokers running and its settings written; all that it started is ended."""
    with ExitStack() as stack:
        urls = {}
        for name in (TOP, *shape.parents):
            broker = running_broker(folder / name / "broker", Listening(port=0), prefer=prefer)
            urls[name] = str(stack.enter_context(broker).address)
        made = Tree(folder, shape, urls, processes)
        made.write(settings)
        if signed:
            made.invite()
        try:
            yield made
        finally:
            for process in made.processes:
                process.kill()


def _lineage(journal: Journal) -> str:
    newest = journal.ledger.newest()
    return "" if newest is None else newest.lineage


def seeds_of(devices: Sequence[Contributor]) -> dict[str, int | None]:
    """What everybody says by now."""
    return {one.agent: one.seed for one in devices}
