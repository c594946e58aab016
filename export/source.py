"""What is exported: one device's network as it classifies after a round, and samples to calibrate
and check it with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from edge_agent.data.dataset import DataSet
from edge_agent.networks.net import FleetNet
from edge_agent.training.agent import Agent
from edge_agent.training.batches import LocalData, SampleTensors
from edge_agent.training.context import TrainingContext
from protofleet import registry
from protofleet.contract import Contract
from protofleet.errors import CheckpointError, UsageError
from protofleet.exchange.published import extractor_lineage, run_lineage
from protofleet.exchange.snapshot import unpack, unpack_state
from protofleet.exchange.state import GlobalState
from protofleet.recipe import Recipe, Scorer, Turn
from protofleet.scoring import scorers_of
from protofleet.settings.fields import from_plain
from protofleet.util.seeds import generator
from protofleet.values.prototypes import Ints, Parts, Tensors

CHECKED, CALIBRATED = 1000, 256


@dataclass(frozen=True, eq=False)
class Trial:
    """Samples as they are stored, and their labels."""

    x: NDArray[Any]
    y: Ints


@dataclass(frozen=True, eq=False)
class Source:
    """A trained device. `calibration` and `check` are empty where no data is at hand."""

    contract: Contract
    method: str
    hyper: Any
    backbone: str
    round: int
    net: FleetNet
    weights: Tensors
    scorers: Mapping[str, Scorer]
    calibration: Trial
    check: Trial

    def lineages(self, *, freeze: bool = False) -> tuple[str, ...]:
        """The run's alone; where all devices keep one frozen extractor, or shall from now on, its
        own before it.
        """
        run = run_lineage(self.contract, self.method, self.hyper)
        if not self.contract.freeze and not freeze:
            return (run,)
        backbone = {n: a for n, a in self.weights.arrays.items() if n.startswith("backbone.")}
        return (extractor_lineage(Tensors(backbone), self.backbone, self.contract), run)


@dataclass(frozen=True)
class SavedAgents:
    """A lab run's newest checkpoint, or the one that was named."""

    folder: Path
    config: Mapping[str, Any]
    round: int


def find(path: Path) -> SavedAgents:
    """A run's directory or one of its checkpoints."""
    inside = path.name.startswith("checkpoint-")
    run = path.absolute().parent if inside else path
    if not (run / "config.json").exists():
        raise CheckpointError(
            f"{path}: no run in it", "name a directory that `protofleet simulate --out` made"
        )
    checkpoints = [path] if inside else sorted(run.glob("checkpoint-*"))
    if not checkpoints or not checkpoints[-1].is_dir():
        raise CheckpointError(
            f"{path}: no checkpoint in it yet", "a run leaves its first after some rounds"
        )
    try:
        config = json.loads((run / "config.json").read_text())
        return SavedAgents(
            checkpoints[-1], config, int(checkpoints[-1].name.removeprefix("checkpoint-"))
        )
    except ValueError as error:
        raise CheckpointError(f"{path}: cannot be read ({error})") from None


def from_run(
    saved: SavedAgents, agent: str | None, data: DataSet | None, image_size: int | None = None
) -> Source:
    """A device of a lab run."""
    try:
        contract = from_plain(Contract, saved.config["contract"])
        recipe = registry.load(saved.config["method"])
        hyper = from_plain(recipe.hyper, saved.config["settings"])
        kinds: Mapping[str, str] = saved.config["backbones"]
        name = agent or min(kinds)
        if name not in kinds:
            raise UsageError(
                f"no agent is called {name!r}", f"there are: {', '.join(sorted(kinds)[:12])}"
            )
        groups = unpack((saved.folder / "agents" / f"{name}.cbor").read_bytes())
        held = {group.removeprefix("memory/"): parts for group, parts in groups.items()}
        state = unpack_state((saved.folder / "state.cbor").read_bytes())
    except (OSError, KeyError, ValueError) as error:
        raise CheckpointError(f"{saved.folder}: cannot be read ({error})") from None
    round = saved.round
    while round and not recipe.talks(Turn(contract, hyper, round)):
        round -= 1
    resized = contract if image_size is None else at_size(contract, image_size)
    return of_agent(
        resized, recipe, hyper, name, kinds[name], held, state, round, trials(data, resized)
    )


def of_agent(
    contract: Contract,
    recipe: Recipe[Any],
    hyper: Any,
    name: str,
    backbone: str,
    held: Mapping[str, Parts],
    state: GlobalState,
    round: int,
    samples: tuple[Trial, Trial],
) -> Source:
    """A device from its checkpoint and the state of a round, taken in as the device would."""
    numerics = replace(contract.numerics, device="cpu", compile=False)
    workshop = TrainingContext(replace(contract, numerics=numerics), recipe, hyper)
    device = Agent(name, backbone, _nothing(contract), workshop)
    device.restore({group: dict(parts) for group, parts in held.items()})
    device.receive(round, state.shared, state.for_agent(name))
    net = device.network().eval()
    weights = Tensors({n: t.detach().cpu().numpy() for n, t in net.weights().items()})
    scorers = scorers_of(
        recipe, workshop.turn(round, name), {**state.shared, **state.for_agent(name)}
    )
    return Source(contract, recipe.name, hyper, backbone, round, net, weights, scorers, *samples)


def at_size(contract: Contract, size: int) -> Contract:
    """The same contract with images of another size, for networks that take any."""
    kind = contract.input
    if kind.kind != "image":
        raise UsageError(f"{kind.kind}s have no image size")
    return replace(contract, input=replace(kind, shape=(size, size, kind.shape[2])))


def chosen_rows(contract: Contract, train: Trial, test: Trial) -> tuple[Trial, Trial]:
    """Some of each, the same ones every time."""
    rng = generator("export", contract.seed, "trials")
    some = [rng.permutation(len(each.y))[:n] for each, n in ((train, CALIBRATED), (test, CHECKED))]
    return Trial(train.x[some[0]], train.y[some[0]]), Trial(test.x[some[1]], test.y[some[1]])


def trials(data: DataSet | None, contract: Contract) -> tuple[Trial, Trial]:
    """Rows of the training split to calibrate with, of the test split to check with; the same ones
    every time.
    """
    if data is None:
        nothing = Trial(_empty(contract), np.zeros(0, np.int64))
        return nothing, nothing
    if data.input.shape != contract.input.shape or data.input.kind != contract.input.kind:
        raise UsageError(
            f"{data.name} holds inputs of {list(data.input.shape)}, the model takes {list(contract.input.shape)}"
        )
    if data.classes != contract.classes:
        known = {name: i for i, name in enumerate(contract.classes)}
        ids = np.array([known.get(name, -1) for name in data.classes], np.int64)
    else:
        ids = np.arange(len(data.classes))
    y = ids[data.y]
    rows = np.flatnonzero(y >= 0)
    train, test = rows[rows < data.n_train], rows[rows >= data.n_train]
    return chosen_rows(contract, Trial(data.x[train], y[train]), Trial(data.x[test], y[test]))


def _nothing(contract: Contract) -> LocalData:
    kind = contract.input
    shape = (kind.shape[2], *kind.shape[:2]) if kind.kind == "image" else kind.shape
    empty = SampleTensors(torch.zeros(0, *shape), torch.zeros(0, dtype=torch.int64))
    return LocalData(empty, empty, empty)


def _empty(contract: Contract) -> NDArray[Any]:
    dtype = np.uint8 if contract.input.kind == "image" else np.float32
    return np.zeros((0, *contract.input.shape), dtype)
