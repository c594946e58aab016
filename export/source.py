"""What is exported: one device's network as it classifies after a round, and samples to calibrate
and check it with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from edge_agent.data.dataset import DataSet
from edge_agent.data.usage import NOBODYS, TRAINED, Usage, unpacked
from edge_agent.networks.net import FleetNet
from edge_agent.training.agent import Agent
from edge_agent.training.batches import LocalData, SampleTensors
from edge_agent.training.context import TrainingContext
from export.trial import Trial, Trials
from protofleet import registry
from protofleet.contract import Contract
from protofleet.errors import CheckpointError, DataError, UsageError
from protofleet.exchange import learned
from protofleet.exchange.published import extractor_lineage, run_lineage
from protofleet.exchange.snapshot import unpack, unpack_state
from protofleet.exchange.state import GlobalState
from protofleet.recipe import Recipe, Scorer, Turn
from protofleet.scoring import primary, scorers_of
from protofleet.settings.fields import from_plain
from protofleet.statistics.adoption import Standard
from protofleet.statistics.reliability import Calibration
from protofleet.util.seeds import generator
from protofleet.values.prototypes import Parts, Tensors

CHECKED, CALIBRATED = 1000, 256  # samples: enough for a tenth of a percent, and for ranges
ENOUGH = 200  # samples of nobody's to measure on


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
    took: str = ""  # whose network it is, and what the run reports
    held_out: Standard | None = None  # what the fleet counted of it, where its method does
    measured: str = ""  # of which samples `check` are; nothing: accuracy cannot be said of them

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
    # Of the last round that was measured: by evaluator, and by device and evaluator.
    accuracy: Mapping[str, float] = field(default_factory=dict)
    per_agent: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    usage: Usage | None = None  # of a run that is older than this nothing is said

    def representative(self) -> tuple[str, str]:
        """The device that comes nearest to what the run reports, and that in words."""
        kinds: Mapping[str, str] = self.config["backbones"]
        name = primary(self.accuracy)
        shares = {a: n[name] for a, n in self.per_agent.items() if name in n and a in kinds}
        if not shares:
            return min(kinds), f"{min(kinds)} of {len(kinds)} devices, the first"
        mean = self.accuracy[name]
        agent = min(sorted(shares), key=lambda a: abs(shares[a] - mean))
        return agent, self.words(agent)

    def words(self, agent: str) -> str:
        """What the run reports of this device, and of all."""
        name = primary(self.accuracy)
        whole = f"{agent} of {len(self.config['backbones'])} devices"
        if name not in self.per_agent.get(agent, {}):
            return whole
        # Prototypes answer among a device's own classes there, and a bundle knows all of them.
        among = "" if name == "head" else ", among its own classes"
        own, mean = self.per_agent[agent][name], self.accuracy[name]
        return (
            f"{whole}: by {name}{among}, it is right in {100 * own:.1f} % of its own test "
            f"samples; the run's mean is {100 * mean:.1f} %"
        )


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
        round = int(checkpoints[-1].name.removeprefix("checkpoint-"))
        rows, samples = checkpoints[-1] / "rows.json", run / "samples.npz"
        every = json.loads(rows.read_text()) if rows.exists() else []
        last: dict[str, Any] = next((row for row in reversed(every) if row.get("accuracy")), {})
        return SavedAgents(
            checkpoints[-1],
            config,
            round,
            last.get("accuracy", {}),
            last.get("per_agent", {}),
            unpacked(samples.read_bytes()) if samples.exists() else None,
        )
    except (OSError, ValueError, AttributeError, DataError) as error:
        raise CheckpointError(f"{path}: cannot be read ({error})") from None


def from_run(
    saved: SavedAgents,
    agent: str | None,
    data: DataSet | None,
    image_size: int | None = None,
    *,
    other: bool = False,
) -> Source:
    """A device of a lab run; `other` data than the run's own is not among what it trained on."""
    try:
        contract = from_plain(Contract, saved.config["contract"])
        recipe = registry.load(saved.config["method"])
        hyper = from_plain(recipe.hyper, saved.config["settings"])
        kinds: Mapping[str, str] = saved.config["backbones"]
        name, took = (agent, saved.words(agent)) if agent else saved.representative()
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
    samples = trials(data, resized, saved.usage, other=other)
    return replace(of_agent(resized, recipe, hyper, trained, samples), took=took)


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
    verdict = learned.verdict(parts)
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
        held_out=None if verdict is None else verdict.standing,
        measured=samples.measured,
    )


def at_size(contract: Contract, size: int) -> Contract:
    """The same contract with images of another size, for networks that take any."""
    kind = contract.input
    if kind.kind != "image":
        raise UsageError(f"{kind.kind}s have no image size")
    return replace(contract, input=replace(kind, shape=(size, size, kind.shape[2])))


def chosen_rows(contract: Contract, train: Trial, test: Trial, measured: str) -> Trials:
    """Some of each, the same ones every time; `measured` says of which samples the latter are."""
    rng = generator("export", contract.seed, "trials")
    calibration = rng.permutation(len(train.y))[:CALIBRATED]
    check = rng.permutation(len(test.y))[:CHECKED]
    return Trials(
        Trial(train.x[calibration], train.y[calibration]),
        Trial(test.x[check], test.y[check]),
        f"{len(check):,} {measured}" if measured else "",
    )


def trials(
    data: DataSet | None, contract: Contract, usage: Usage | None = None, *, other: bool = False
) -> Trials:
    """Rows to calibrate with, and others to check with; the same ones every time.

    Accuracy on what a fleet trained on says nothing of what it will see. So the rows to check with
    are those that no device held; where these are few, those that no device trained on; where
    nobody says which these are, rows without their labels.
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
    if usage is None or not usage.fits(data):
        train, test = rows[rows < data.n_train], rows[rows >= data.n_train]
        labels = y[test] if other else np.full(len(test), -1)
        words = f"test samples of {data.name}, which the run did not have" if other else ""
        return chosen_rows(
            contract, Trial(data.x[train], y[train]), Trial(data.x[test], labels), words
        )
    train = rows[usage.codes[rows] == TRAINED]
    test, words = rows[usage.codes[rows] == NOBODYS], "samples that no device held"
    if len(test) < ENOUGH:
        test = rows[usage.codes[rows] != TRAINED]
        words = "samples that no device trained on"
    return chosen_rows(
        contract, Trial(data.x[train], y[train]), Trial(data.x[test], y[test]), words
    )


# To classify as it does a device needs no samples; with none it cannot be trained by mistake.
def _nothing(contract: Contract) -> LocalData:
    kind = contract.input
    shape = (kind.shape[2], *kind.shape[:2]) if kind.kind == "image" else kind.shape
    empty = SampleTensors(torch.zeros(0, *shape), torch.zeros(0, dtype=torch.int64))
    return LocalData(empty, empty, empty)


def _empty(contract: Contract) -> NDArray[Any]:
    dtype = np.uint8 if contract.input.kind == "image" else np.float32
    return np.zeros((0, *contract.input.shape), dtype)
