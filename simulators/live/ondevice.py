"""What a live fleet learned, on a device: a bundle of one agent's network, and a process that
answers with it.

The process is `edge-agent infer`: numpy and onnxruntime, no torch.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from edge_agent.store import Store
from export import source, writer
from protofleet.errors import FleetError
from protofleet.exchange.snapshot import unpack
from simulators.live.fleet import last_words
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
    bundle = folder / "device.pfb"
    writer.write(writer.export(device, writer.Wanted()), bundle)
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
