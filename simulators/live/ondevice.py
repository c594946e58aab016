"""What a live fleet learned, on a device: a bundle of one agent's network, or of the extractor that
all devices see through, and a process that answers with it.

The process is `edge-agent infer`: numpy and onnxruntime, no torch.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from coordinator.service.extractors import RANDOM
from edge_agent.inference.bundle import open_bundle
from edge_agent.store import Store
from edge_agent.updates import cache
from export import source, writer
from protofleet.errors import FleetError
from protofleet.exchange import learned, published
from protofleet.exchange.published import About, Bank
from protofleet.exchange.snapshot import unpack
from protofleet.values.prototypes import Head
from protofleet.wire import Envelope
from simulators.live.fleet import FLEET, last_words
from simulators.run.result import Outcome
from simulators.run.setup import RUN_ID


@dataclass(frozen=True)
class DeviceAnswers:
    """What the device said to its agent's test images."""

    agent: str
    bundle_bytes: int
    right: int
    images: int


def answer(outcome: Outcome, folder: Path, agent: str) -> DeviceAnswers:
    """Export this agent as it stands in a fleet's folder, and let a process classify its test
    images.
    """
    bundle = folder / "device.pfb"
    if outcome.setup.recipe.traits.frozen:
        _fetched(outcome, folder / "coordinator-data" / RANDOM, bundle)
    else:
        _exported(outcome, folder, agent, bundle)
    return _answers(outcome, folder, agent, bundle)


def _fetched(outcome: Outcome, extractor: Path, bundle: Path) -> None:
    """What every device of a ledger has: the extractor for all, and the fleet's state beside it."""
    shutil.copy(extractor, bundle)
    opened, shared = open_bundle(bundle), outcome.state.shared
    head = shared[learned.HEAD]
    assert isinstance(head, Head)
    about = About(
        opened.manifest.lineages[0],
        outcome.setup.contract.classes,
        opened.digest,
        learned.calibration(shared),
    )
    message = published.write(Bank(about, head), Envelope("global", FLEET), "float32")
    cache.state_file(bundle).write_bytes(message)


def _exported(outcome: Outcome, folder: Path, agent: str, bundle: Path) -> None:
    """The agent's own network, and what it classifies by."""
    setup = outcome.setup
    store = Store(folder / "agents" / agent / "agent-data", create=False)
    try:
        checkpoint = store.checkpoint(RUN_ID)
    finally:
        store.close()
    if checkpoint is None:
        raise FleetError(f"{agent} has not trained yet")
    trained = source.TrainedAgent(
        name=agent,
        backbone=setup.backbones[agent],
        checkpoint=unpack(checkpoint.body),
        state=outcome.state,
        round=outcome.rows[-1].round,
    )
    samples = source.trials(setup.data, setup.contract, setup.usage)
    device = source.of_agent(setup.contract, setup.recipe, setup.hyper, trained, samples)
    writer.write(writer.export(device, writer.Wanted()), bundle)


def _answers(outcome: Outcome, folder: Path, agent: str, bundle: Path) -> DeviceAnswers:
    labels = _photos(outcome, agent, folder / "photos")
    command = [
        sys.executable,
        "-m",
        "edge_agent",
        "infer",
        "--bundle",
        str(bundle),
        "--json",
        str(folder / "photos"),
    ]
    # A process of its own, so that no torch of ours is there: what answers is numpy and
    # onnxruntime.
    with (folder / "device.log").open("wb") as log:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=log, check=False)
    if done.returncode:
        raise FleetError(f"the device did not answer: {last_words(folder / 'device.log')}")
    rows = json.loads(done.stdout)["answers"]
    right = sum(row["label"] == labels[Path(row["path"]).name] for row in rows)
    return DeviceAnswers(agent, bundle.stat().st_size, right, len(rows))


def _photos(outcome: Outcome, agent: str, folder: Path) -> dict[str, str]:
    """The agent's test images as files; their names and what is on them."""
    data = outcome.setup.data
    (shard,) = [shard for shard in outcome.setup.partition.shards if shard.agent == agent]
    folder.mkdir()
    labels = {}
    for number, row in enumerate(shard.test):
        name = f"{number:03d}.png"
        Image.fromarray(np.squeeze(data.x[row])).save(folder / name)
        labels[name] = data.classes[data.y[row]]
    return labels
