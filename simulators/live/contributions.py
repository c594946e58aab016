"""A live fleet whose coordinator keeps a ledger: devices contribute and count, and what comes of it
is held to the laboratory's sums of the same features.

There are no rounds to be watched. The fleet is waited for until everybody who has enough samples
has contributed and counted against the total that all of them are in; by then order and time are
gone from it. The laboratory's side is the recipe's own two exchanges in memory, on features of the
very bundle that the fleet used: its own extractor is a network of torch, with other last bits.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import numpy as np

from coordinator.service.extractors import RANDOM
from coordinator.service.replay import refolded
from coordinator.uploads.fuse import fuse_round
from edge_agent.inference.classifier import Classifier
from protofleet.errors import FleetError
from protofleet.exchange import learned
from protofleet.exchange.state import GlobalState, Upload
from protofleet.methods.fleet import statement
from protofleet.mqtt.broker.run import Prefer, running_broker
from protofleet.recipe import Turn
from protofleet.statistics import contribution as contributions
from protofleet.statistics import counts
from protofleet.statistics.contribution import Contribution
from protofleet.statistics.held_out import Samples
from protofleet.values.prototypes import Floats, Head, Ints
from simulators.live import fleet
from simulators.live.fleet import FleetProcess
from simulators.run.partitions import Shard
from simulators.run.result import Outcome, Row
from simulators.run.rounds import Watch
from simulators.run.setup import Setup, samples_of


@dataclass(frozen=True, eq=False)
class OwnFeatures:
    """What a device has of the classes that it may speak of."""

    features: Floats
    labels: Ints
    contribution: Contribution

    @property
    def samples(self) -> Samples:
        """As it counts them."""
        return Samples.of(self.features, self.labels, self.contribution)


def run(setup: Setup, folder: Path, watch: Watch, prefer: Prefer = "auto") -> Outcome:
    """A live fleet until its ledger is whole; everything is stopped at the end."""
    began = time.perf_counter()
    with running_broker(folder / "broker", prefer=prefer) as broker:
        fleet.write(setup, folder, str(broker.address))
        with fleet.members(setup, folder) as members:
            status = settled(setup, folder, members)
    journal = fleet.reader(folder)
    try:
        version = refolded(journal)
        sizes = [len(body) for _, body in journal.ledger.bodies()]
    finally:
        journal.close()
    if version is None or version.state.sha256 != status["state_sha256"]:
        raise FleetError("the journal does not come to the state that the coordinator published")
    row = measured(setup, folder / "coordinator-data" / RANDOM, version.state)
    row = replace(row, up_bytes=sum(sizes), seconds=time.perf_counter() - began)
    watch(row)
    return Outcome(setup, version.state, (row,), time.perf_counter() - began, 0)


def laboratory(setup: Setup, bundle: Path) -> GlobalState:
    """The recipe's two exchanges, in memory, on what devices see through this bundle."""
    classifier, recipe, hyper = Classifier(bundle), setup.recipe, setup.hyper
    contract = replace(setup.contract, embedding=classifier.bundle.manifest.embedding)
    own = {}
    for shard in setup.partition.shards:
        sees = _own(setup, shard, classifier)
        if sees is not None:
            own[shard.agent] = sees
    state = GlobalState()
    parts = {agent: contributions.parts_of(sees.contribution) for agent, sees in own.items()}
    for number in (1, 2):
        uploads = [Upload(agent, number, state.base, of) for agent, of in parts.items()]
        state = fuse_round(recipe, Turn(contract, hyper, number), state, uploads)
        total = learned.moments(state.shared)
        parts = {
            agent: counts.parts_of(counts.count(total, _samples(of))) for agent, of in own.items()
        }
    return state


def _samples(of: OwnFeatures) -> Samples:
    return Samples.of(of.features, of.labels, of.contribution)


def _own(setup: Setup, shard: Shard, classifier: Classifier) -> OwnFeatures | None:
    """Of the classes with enough samples, in the order in which a device speaks of them."""
    x, y = samples_of(setup.data, shard, shard.train)
    names = np.array(setup.contract.classes)
    rows = np.flatnonzero(np.bincount(y, minlength=len(names))[y] >= setup.hyper.minimum)
    if not len(rows):
        return None
    rows = rows[np.argsort(names[y[rows]], kind="stable")]
    # One by one, as a device looks at them: in a block a feature's last bits are others.
    features = np.stack([classifier.embed(x[row][None])[0] for row in rows])
    return OwnFeatures(features, y[rows], statement(features, y[rows], setup.hyper))


def settled(setup: Setup, folder: Path, members: list[FleetProcess]) -> Mapping[str, Any]:
    """The coordinator's word on its ledger, once nothing is missing in it."""
    enough = [
        shard.agent
        for shard in setup.partition.shards
        if np.bincount(setup.data.y[shard.train]).max(initial=0) >= setup.hyper.minimum
    ]
    since, before = time.monotonic(), (-1, -1)
    while True:
        time.sleep(fleet.POLL)
        fleet.expect_alive(members)
        ledger = (fleet.status_of(folder) or {}).get("ledger")
        position = (-1, 0) if ledger is None else (ledger["devices"], ledger["counted"])
        whole = position == (len(enough), len(enough))
        if ledger is not None and whole and ledger["current"] and ledger["settled"]:
            return dict(ledger)
        if position != before:
            before, since = position, time.monotonic()
        if time.monotonic() - since > fleet.PATIENCE + 10 * setup.config.run.agents:
            words = f"{position[0]} of {len(enough)} devices contributed, {position[1]} counted"
            raise FleetError(f"the ledger does not go on: {words}", f"logs: {folder / 'logs'}")


def measured(setup: Setup, bundle: Path, state: GlobalState) -> Row:
    """Each device's test samples by the fleet's head, without the device's own prior; nothing where
    there is none, as all of it was hidden by a budget's noise.
    """
    classifier, head = Classifier(bundle), state.shared.get(learned.HEAD)
    if not isinstance(head, Head):
        return Row(1, {}, {})
    shares = {}
    for shard in setup.partition.shards:
        x, y = setup.test_samples(shard)
        scores = classifier.embed(x) @ head.weight.T + head.bias
        shares[shard.agent] = float((head.classes[scores.argmax(1)] == y).mean())
    mean, std = fmean(shares.values()), pstdev(shares.values())
    by_agent = {agent: {"head": share} for agent, share in shares.items()}
    return Row(1, {"head": mean}, {"head": std}, per_agent=by_agent)
