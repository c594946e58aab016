"""`protofleet bench papers`: the papers' cells run on the real data, and the page that holds ours beside theirs.

A cell is one figure of one paper with the settings that were used for it. Every (cell, seed) is a run directory, so the
table is resumable run by run, and the page is made from what is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from protofleet.contract import Training
from simulators.comparison import result_of
from simulators.config import LabConfig, Run
from simulators.partitions import PartitionOptions
from simulators.progress import size
from simulators.rundir import RunDir
from simulators.setup import prepare

HEAD = """# Results

The papers' figures beside ours, on the real data sets, made by

    {command}

which looks for the data in `PROTOFLEET_DATA`, takes up where it was stopped, and writes this page. Accuracies are means
over devices in the last round (and in the best one), then mean ± standard deviation over the seeds; nothing was tuned
on the test split. *Reached* means: not below the paper by more than the paper's own standard deviation.

| cell | paper | ours, last | ours, best | gap (last) | reached | seeds | rounds | up a round | seconds a run |
|---|---|---|---|---|---|---|---|---|---|"""


@dataclass(frozen=True)
class Cell:
    """A figure of a paper and the run that answers it."""

    name: str
    title: str
    config: LabConfig
    evaluator: str
    paper: float
    paper_std: float
    paper_floats: int | None = None
    note: str = ""


def few_shot(dataset: str, backbone: str, spread: int, augment: str) -> LabConfig:
    """FedProto's and FedMPS's protocol, on the devices that the papers' own code draws."""
    return LabConfig(
        Run(
            method="fedproto", dataset=dataset, agents=20, partition="few-shot", backbone=backbone, rounds=80,
            partition_seed=1234,
        ),
        PartitionOptions(ways=3, shots=100, spread=spread, test_shots=15),
        Training(batch_size=8, lr=0.01, momentum=0.5, augment="crop-flip" if augment == "crop-flip" else "none"),
    )  # fmt: skip


CELLS = (
    Cell(
        "fedproto-cifar10", "FedProto, CIFAR-10, 3 ways, 100 shots", few_shot("cifar10", "lenet", 1, "crop-flip"),
        "prototype", 0.7510, 0.0094, 7080, "plain LeNet, d = 120, crop and flip; the images here were JPEG-compressed",
    ),
    Cell(
        "fedproto-fashion", "FedProto, Fashion-MNIST, 3 ways, 100 shots",
        few_shot("fashion-mnist", "cnn-mnist", 2, "none"), "prototype", 0.9307, 0.0056, None,
        "d = 50 net, no augmentation",
    ),
)  # fmt: skip


def run_cell(cell: Cell, seeds: Sequence[int], out: Path, workers: int) -> None:
    """Every seed that is not there yet."""
    for seed in seeds:
        result_of(
            f"{cell.name} {seed}", prepare(at_seed(cell, seed)), workers, out / cell.name / str(seed), resume=True
        )


def at_seed(cell: Cell, seed: int) -> LabConfig:
    """The cell's run under this seed: other weights and orders, the same devices."""
    return replace(cell.config, run=replace(cell.config.run, seed=seed))


def found(cell: Cell, seeds: Sequence[int], out: Path) -> list[dict[str, Any]]:
    """The finished runs of a cell."""
    results = [RunDir(out / cell.name / str(seed)).result(prepare(at_seed(cell, seed))) for seed in seeds]
    return [result for result in results if result is not None]


def page(cells: Sequence[Cell], results: Mapping[str, list[dict[str, Any]]], command: str) -> str:
    """The page as Markdown."""
    lines = [HEAD.format(command=command)]
    for cell in cells:
        runs = results.get(cell.name, [])
        if runs:
            lines.append(_line(cell, runs))
    lines += ["", "## Settings", ""]
    for cell in cells:
        if results.get(cell.name):
            lines += _settings(cell, results[cell.name])
    return "\n".join(lines) + "\n"


def _line(cell: Cell, runs: list[dict[str, Any]]) -> str:
    last = [run["final"]["each"][cell.evaluator] for run in runs]
    best = [run["best"]["each"][cell.evaluator]["accuracy"] for run in runs]
    gap = fmean(last) - cell.paper
    reached = "yes" if gap >= -cell.paper_std else "no"
    floats, bytes = runs[0]["rounds"][0]["up_floats"], runs[0]["rounds"][0]["up_bytes"]
    up = f"{floats:,} floats" + (f" (paper {cell.paper_floats:,})" if cell.paper_floats else "") + f", {size(bytes)}"
    paper = f"{100 * cell.paper:.2f} ± {100 * cell.paper_std:.2f}"
    seconds = fmean(run["seconds"] for run in runs)
    cells = [cell.title, paper, _spread(last), _spread(best), f"{100 * gap:+.2f}", reached, str(len(runs))]
    return "| " + " | ".join([*cells, str(len(runs[0]["rounds"])), up, f"{seconds:.0f}"]) + " |"


def _spread(values: Sequence[float]) -> str:
    deviation = stdev(values) if len(values) > 1 else 0.0
    return f"{100 * fmean(values):.2f} ± {100 * deviation:.2f}"


def _settings(cell: Cell, runs: list[dict[str, Any]]) -> list[str]:
    held = sum(len(agent["classes"]) for agent in runs[0]["partition"]["agents"].values())
    each = ", ".join(f"{run['config']['seed']}: {100 * run['final']['each'][cell.evaluator]:.2f}" for run in runs)
    words = f"**{cell.title}.** {cell.note}; {held} client-classes. By seed: {each}."
    return [words, "", f"    {command_of(cell.config)} --seed SEED", ""]


def command_of(config: LabConfig) -> str:
    """The command line of this run: what differs from the defaults."""
    words = ["protofleet simulate", f"--method {config.run.method}"]
    for section in (config.run, config.partition, config.training, config.numerics):
        for field in fields(section):
            value = getattr(section, field.name)
            if value == field.default or field.name in ("method", "seed"):
                continue
            flag = field.name.replace("_", "-")
            words.append(f"--{flag}" if value is True else f"--{flag} {value}")
    return " ".join([*words, *(f"--set {pair}" for pair in config.settings)])
