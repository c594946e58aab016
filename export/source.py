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
from export.trial import Trial, Trials
from protofleet import registry
from protofleet.contract import Contract
from protofleet.errors import CheckpointError, UsageError
from protofleet.exchange import learned
from protofleet.exchange.published import extractor_lineage, run_lineage
from protofleet.exchange.snapshot import unpack, unpack_state
from protofleet.exchange.state import GlobalState
from protofleet.recipe import Recipe, Scorer, Turn
from protofleet.scoring import scorers_of
from protofleet.settings.fields import from_plain
from protofleet.statistics.reliability import Calibration
from protofleet.util.seeds import generator
from protofleet.values.prototypes import Parts, Tensors

CHECKED, CALIBRATED = 1000, 256  # samples: enough for a tenth of a percent, and for ranges


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
    sure: Calibration | None = None  # how sure the method's own head is, where it says so

    def lineages(self, *, freeze: bool = False) -> tuple[str, ...]:
        """The run's alone; where all devices keep one frozen extractor, or shall from now on, its
        own before it.
        """
        run = run_lineage(self.contract, self.method, self.hyper)
        if not self.contract.freeze and not freeze:
            return (run,)
        backbone = {n: a for n, a in self.weights.arrays.items() if n.startswith("backbone.")}
        return (extractor_lineage(Tensors(backbone), self.backbone, self.contract), run)


@dataclass(frozen=True, eq=False)
class TrainedAgent:
    """A device as a laboratory or its own daemon has kept it: its checkpoint, and the state of a
    round.
    """

    name: str
    backbone: str
    checkpoint: Mapping[str, Parts]
    state: GlobalState
    round: int


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
        checkpoint = {group.removeprefix("memory/"): parts for group, parts in groups.items()}
        state = unpack_state((saved.folder / "state.cbor").read_bytes())
    except (OSError, KeyError, ValueError) as error:
        raise CheckpointError(f"{saved.folder}: cannot be read ({error})") from None
    # A round without exchange leaves the state of the one before it: that one names the bundle.
    round = saved.round
    while round and not recipe.talks(Turn(contract, hyper, round)):
        round -= 1
    resized = contract if image_size is None else at_size(contract, image_size)
    trained = TrainedAgent(name, kinds[name], checkpoint, state, round)
    return of_agent(resized, recipe, hyper, trained, trials(data, resized))


def of_agent(
    contract: Contract, recipe: Recipe[Any], hyper: Any, trained: TrainedAgent, samples: Trials
) -> Source:
    """A device from its checkpoint and the state of a round, taken in as the device would."""
    name, round, state = trained.name, trained.round, trained.state
    # Only where it computes differs from the device's own contract, which the bundle goes by.
    numerics = replace(contract.numerics, device="cpu", compile=False)
    context = TrainingContext(replace(contract, numerics=numerics), recipe, hyper)
    device = Agent(name, trained.backbone, _nothing(contract), context)
    device.restore({group: dict(parts) for group, parts in trained.checkpoint.items()})
    device.receive(round, state.shared, state.for_agent(name))
    net = device.network().eval()
    parts = {**state.shared, **state.for_agent(name)}
    return Source(
        contract=contract,
        method=recipe.name,
        hyper=hyper,
        backbone=trained.backbone,
        round=round,
        net=net,
        weights=Tensors({n: t.detach().cpu().numpy() for n, t in net.weights().items()}),
        scorers=scorers_of(recipe, context.turn(round, name), parts),
        calibration=samples.calibration,
        check=samples.check,
        sure=learned.calibration(parts) if learned.HEAD in parts else None,
    )


def at_size(contract: Contract, size: int) -> Contract:
    """The same contract with images of another size, for networks that take any."""
    kind = contract.input
    if kind.kind != "image":
        raise UsageError(f"{kind.kind}s have no image size")
    return replace(contract, input=replace(kind, shape=(size, size, kind.shape[2])))


def chosen_rows(contract: Contract, train: Trial, test: Trial) -> Trials:
    """Some of each, the same ones every time."""
    rng = generator("export", contract.seed, "trials")
    calibration = rng.permutation(len(train.y))[:CALIBRATED]
    check = rng.permutation(len(test.y))[:CHECKED]
    return Trials(
        Trial(train.x[calibration], train.y[calibration]), Trial(test.x[check], test.y[check])
    )


def trials(data: DataSet | None, contract: Contract) -> Trials:
    """Rows of the training split to calibrate with, of the test split to check with; the same ones
    every time.
    """
    if data is None:
        nothing = Trial(_empty(contract), np.zeros(0, np.int64))
        return Trials(nothing, nothing)
    if data.input.shape != contract.input.shape or data.input.kind != contract.input.kind:
        raise UsageError(
            f"{data.name} holds inputs of {list(data.input.shape)}, "
            f"the model takes {list(contract.input.shape)}"
        )
    if data.classes != contract.classes:
        of_contract = {name: i for i, name in enumerate(contract.classes)}
        ids = np.array([of_contract.get(name, -1) for name in data.classes], np.int64)
    else:
        ids = np.arange(len(data.classes))
    y = ids[data.y]
    rows = np.flatnonzero(y >= 0)
    train, test = rows[rows < data.n_train], rows[rows >= data.n_train]
    return chosen_rows(contract, Trial(data.x[train], y[train]), Trial(data.x[test], y[test]))


# To classify as it does a device needs no samples; with none it cannot be trained by mistake.
def _nothing(contract: Contract) -> LocalData:
    kind = contract.input
    shape = (kind.shape[2], *kind.shape[:2]) if kind.kind == "image" else kind.shape
    empty = SampleTensors(torch.zeros(0, *shape), torch.zeros(0, dtype=torch.int64))
    return LocalData(empty, empty, empty)


def _empty(contract: Contract) -> NDArray[Any]:
    dtype = np.uint8 if contract.input.kind == "image" else np.float32
    return np.zeros((0, *contract.input.shape), dtype)
