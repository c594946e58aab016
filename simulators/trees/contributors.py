"""Devices of a ledger that look at nothing: what they contribute is drawn from their names. How it
gets to a coordinator, and what they remember of that, are a real device's own rules.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np

from coordinator.ledger.ledger import Ledger
from coordinator.ledger.versions import CountTotal, OfferedTotal, VersionTerms, version
from edge_agent.config import AgentSection, Config, FleetSection
from edge_agent.daemon.deliver import COUNTS, OWN, Deliveries
from edge_agent.daemon.outbound import Outbound
from edge_agent.daemon.transfers import Transfers
from protofleet import registry, wire
from protofleet.contract import Input
from protofleet.errors import FleetError, LinkBusy
from protofleet.exchange import archive, contributed, published
from protofleet.exchange.contributed import CONTRIBUTE, COUNT, WITHDRAW, Claim
from protofleet.exchange.published import STABLE, About, Bank
from protofleet.member import membership
from protofleet.member.sealed_link import sealed_link
from protofleet.mqtt.address import Address
from protofleet.mqtt.link.link import Arrival, Connected, LinkSettings
from protofleet.mqtt.topics import Topics
from protofleet.settings.fields import to_plain
from protofleet.statistics import counts
from protofleet.statistics.contribution import Grid, contribution
from protofleet.statistics.held_out import Samples
from protofleet.trust.sequence import DAEMON
from protofleet.util.logs import Log
from protofleet.values.prototypes import Floats, Ints, Prototypes
from protofleet.wire import Envelope

CLASSES = ("apple", "fig", "pear", "plum")
LINEAGE, WIDTH = "extractor:tree", 6
SAMPLES = 6  # of a class
NAP = 0.05
RULES = {"interval": 0.1, "settle": 1.0, "asked": 1_000_000}  # of the ledger: soon, and of all
GONE = None  # in a seed's place: it has taken back what it said


def classes_of(agent: str) -> tuple[str, ...]:
    """What it has: two of the classes, and some a class of their own."""
    rng = random.Random(agent)
    own = ("quince",) if rng.random() < 0.2 else ()
    return (*sorted(rng.sample(CLASSES, 2)), *own)


def samples_of(agent: str, seed: int) -> tuple[Floats, Ints]:
    """Features around a place of its own for each class, and labels."""
    names = classes_of(agent)
    rng = np.random.default_rng([seed, *agent.encode()])
    places = [np.random.default_rng([*name.encode()]).normal(size=WIDTH) * 3 for name in names]
    labels = np.repeat(np.arange(len(names)), SAMPLES)
    features = np.stack(places)[labels] + rng.normal(size=(len(labels), WIDTH))
    return features.astype(np.float32), labels.astype(np.int64)


def statement(fleet: str, agent: str, seed: int | None) -> bytes:
    """What it contributes with these samples; that it takes all of it back, with none."""
    envelope = Envelope("enrol", fleet, agent=agent, method=CONTRIBUTE)
    if seed is None:
        back = Claim(LINEAGE), replace(envelope, method=WITHDRAW)
        return contributed.write_withdrawal(*back)
    own = contribution(*samples_of(agent, seed), Grid())
    return contributed.write_contribution(Claim(LINEAGE, classes_of(agent)), own, envelope)


def counted(fleet: str, agent: str, seed: int, total: bytes) -> bytes:
    """What it counts of the same samples against a total."""
    claim, against = contributed.read_total(total)
    features, labels = samples_of(agent, seed)
    ids = np.array([claim.classes.index(name) for name in classes_of(agent)])
    own = contribution(features, labels, Grid()).keyed(ids)
    report = counts.count(against, Samples.of(features, ids[labels], own))
    envelope = Envelope("enrol", fleet, agent=agent, method=COUNT)
    return contributed.write_counts(Claim(LINEAGE, total=claim.total), report, envelope)


def under_one(fleet: str, seeds: Mapping[str, int | None], buckets: int = 1) -> str:
    """The hash of the state that these devices come to under one coordinator, in memory."""
    recipe = registry.load("fleet")
    terms = VersionTerms("half", recipe.precision, recipe.hyper().alarms, buckets)
    ledger = Ledger(LINEAGE, buckets=buckets)
    said = {agent: seed for agent, seed in seeds.items() if seed is not None}
    for agent, seed in said.items():
        message = contributed.read(statement(fleet, agent, seed))
        assert isinstance(message, contributed.Contributed)
        ledger = ledger.plus(agent, message)
    first = version(ledger, CLASSES, CountTotal(), terms)
    total, tally = first.to_count_against(Envelope("global", fleet, base=first.total)), CountTotal()
    for agent, seed in said.items():
        report = contributed.read(counted(fleet, agent, seed, total))
        assert isinstance(report, contributed.CountReport)
        tally = tally.plus(agent, report)
    return version(ledger, CLASSES, tally, terms).state.sha256


def bundle(path: Path) -> Path:
    """An extractor that knows no class, as far as a coordinator looks into it."""
    bank = Bank(
        About(LINEAGE, ()), Prototypes(np.zeros(0, np.int64), np.zeros((0, WIDTH), np.float32))
    )
    message = published.write(bank, Envelope("global", "f"))
    files = {
        archive.MODEL: b"a graph",
        archive.PROTOTYPES: message,
        archive.SELFTEST: b"vectors",
    }
    manifest = {
        "schema": archive.SCHEMA,
        "files": {name: sha256(data).hexdigest() for name, data in files.items()},
        "state": wire.decode(message).digest,
        "input": to_plain(Input("vector", (WIDTH,))),
    }
    path.write_bytes(archive.pack({archive.MANIFEST: json.dumps(manifest).encode(), **files}))
    return path


class Contributor:
    """One of them, from its first word to its counts."""

    def __init__(self, url: str, fleet: str, agent: str, folder: Path, seed: int = 0) -> None:
        self.agent, self.fleet, self.folder = agent, fleet, folder
        self.seed: int | None = seed
        folder.mkdir(parents=True, exist_ok=True)
        self._topics = Topics(fleet)
        config = replace(
            Config(), agent=AgentSection(agent, str(folder)), fleet=FleetSection(fleet)
        )
        settings = LinkSettings(clean_start=True)
        address = Address.parse(url)
        self._log = (folder / "log").open("a")
        log, rng = Log(self._log), random.Random(agent)
        speaker = membership.of_folder(folder), DAEMON  # of a fleet by invitation
        self._link = sealed_link(address, agent, settings, speaker, log, rng, _soon)
        outbound = Outbound(self._link, self._topics, config, agent, lambda size: None)
        transfers = Transfers(self._topics, agent, folder, self._link, time.monotonic, 1 << 20)
        self.deliveries = Deliveries(config, outbound, transfers, log, time.monotonic)
        self._transfers = transfers
        self._run, self._about, self._total = "", About("none", ()), b""
        self._said: tuple[int | None, str] | None = None  # the seed, and to which run

    def start(self) -> None:
        """Be at the broker."""
        self._link.subscribe(self._topics.for_device(self.agent))
        self._link.start()

    def stop(self) -> None:
        """Leave."""
        self._link.stop(patience=1.0)
        self._log.close()

    @property
    def taken(self) -> str:
        """The digest of what its coordinator has receipted, as it remembers it."""
        return self.deliveries.taken(OWN)

    def turn(self) -> None:
        """Whatever is due."""
        for event in self._link.poll(0.0):
            if isinstance(event, Connected):
                self.deliveries.connected()
            elif isinstance(event, Arrival):
                self._hear(event)
                self._link.ack(event)
        seed = self.seed
        if self._run and self._about.lineage == LINEAGE and self._said != (seed, self._run):
            self.deliveries.under(self.folder / "said", self._run)
            # Of nothing at all is spoken once: where something was said, whoever has heard it.
            if seed is not None or self.taken or self._said is not None:
                self.deliveries.offer(OWN, statement(self.fleet, self.agent, seed))
            self._said = seed, self._run
        self._count()
        with suppress(LinkBusy):
            self.deliveries.look()
            self._transfers.push()

    def _hear(self, arrival: Arrival) -> None:
        place, payload = self._topics.parse(arrival.topic), arrival.payload
        if place is None or not payload:
            return
        match place.kind, place.rest:
            case "round", _:
                self._run = wire.unseal(payload)[0].run or ""
            case "proto", (name,) if name == STABLE:
                self._about = published.read(payload).bank.about
            case "proto", ("total",):
                self._total = payload
            case "receipt", _:
                self.deliveries.receipt(wire.decode(payload))

    def _count(self) -> None:
        about = self._about
        if not about.asked or not self._total or not self.taken or self.seed is None:
            return
        if wire.unseal(self._total)[0].base != about.total:
            return
        mark = f"{about.total} {self.seed}"
        drawn = OfferedTotal(LINEAGE, about.total, 0, about.asked).is_for(self.agent)
        known = self.deliveries.taken(COUNTS) == mark or self.deliveries.offers(COUNTS, mark)
        if not drawn or known:
            return
        # Of a total that does not have its newest samples yet there is nothing to count.
        with suppress(ValueError, FleetError, np.linalg.LinAlgError):
            report = counted(self.fleet, self.agent, self.seed, self._total)
            self.deliveries.offer(COUNTS, report, mark)


@contextmanager
def contributors(every: Sequence[Contributor]) -> Iterator[Sequence[Contributor]]:
    """All of them, on one thread, until the block is left."""
    stop, failed = threading.Event(), list[BaseException]()

    def live() -> None:
        try:
            while not stop.wait(NAP):
                for one in every:
                    one.turn()
        except Exception as error:
            failed.append(error)

    for one in every:
        one.start()
    thread = threading.Thread(target=live, name="contributors", daemon=True)
    thread.start()
    try:
        yield every
    finally:
        stop.set()
        thread.join(15.0)
        for one in every:
            one.stop()
    if failed:
        raise FleetError(f"a device failed: {failed[0]!r}")


def _soon(attempt: int) -> float:
    """Seconds to the next connection: a case is not to wait."""
    return min(2.0, 0.1 * (attempt + 1))
