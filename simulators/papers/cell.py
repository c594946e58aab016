"""A cell: one figure of a paper, the run that answers it, and what is asked of the answer."""

# Theory of operation
#
# A cell is a promise made before the run: a paper's figure, the settings that the paper gives, and
# what is asked of the outcome (its aims). Runs lie in OUT/CELL/SEED, are made once and found again.
#
# 1. A run counts for a cell only if its recorded configuration is the cell's own (`finished`). So a
#    cell whose settings are changed loses its runs by itself, and no figure stands beside settings
#    that did not make it. This is decided from options alone: resolving them fully would take the
#    data, and the page must be made where no data is.
# 2. An option that came after a run was recorded is taken to have had its default then; that is
#    what a new option's default has to be.
# 3. Seeds go over everything drawn. Where a paper fixes its devices (`partition_seed`), they stay
#    and only weights and orders change.
# 4. The round that is compared is the one that the paper reports (`pick`). The best round is chosen
#    on the test split; that is the papers' way and stands in the table as what it is.
# 5. A reading answers the same figure by other settings, where a paper leaves something open. It is
#    a cell of its own and never replaces one: choosing the best of several after the fact would
#    make every figure come true.
#
#     aim         is reached when
#     figure      ours is not below the paper's by more than the paper's own deviation
#     above       ours less another cell's, seed by seed, is at least so much (or above zero)
#     at least    ours is at least so much
#     below       ours is below so much

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from protofleet.exchange.snapshot import unpack_state
from protofleet.settings.fields import parse_pairs, to_plain
from protofleet.values.prototypes import Prototypes
from simulators.run.comparison import result_of
from simulators.run.config import LabConfig, Run
from simulators.run.setup import prepare

MARGINS = "margins"  # instead of an evaluator: the evenness of the final prototypes


@dataclass(frozen=True)
class Aim:
    """What is asked: the paper's own figure, or so much more than another cell, or a number to
    reach or stay under.
    """

    kind: Literal["figure", "above", "at least", "below"]
    amount: float = 0.0
    other: str = ""  # the cell to be above


@dataclass(frozen=True)
class Cell:
    """A figure of a paper and the run that answers it; a reading answers the same figure by other
    settings.
    """

    name: str
    title: str
    config: LabConfig
    evaluator: str  # or MARGINS
    paper: float | None = None
    paper_std: float = 0.0
    aims: tuple[Aim, ...] = (Aim("figure"),)
    pick: Literal["last", "best"] = "last"  # the round that the paper reports
    paper_floats: int | None = None
    more_seeds: int = 0  # beyond those of the call; at least one is run
    cut: str = ""
    note: str = ""
    reading_of: str = ""

    def seeds(self, seed_count: int) -> range:
        """The seeds of this cell when so many are asked of all."""
        return range(max(1, seed_count + self.more_seeds))


@dataclass(frozen=True)
class CellRun:
    """A finished run of a cell: its document, and the last prototypes' evenness where the cell asks
    for it.
    """

    seed: int
    document: dict[str, Any]
    margins: float | None = None

    def value(self, cell: Cell, pick: Literal["last", "best"]) -> float:
        """The cell's figure in the last round or in the best."""
        if cell.evaluator == MARGINS:
            return float("nan") if self.margins is None else self.margins
        if pick == "last":
            return float(self.document["final"]["each"][cell.evaluator])
        return float(self.document["best"]["each"][cell.evaluator]["accuracy"])


def run_cell(cell: Cell, seed_count: int, out: Path, workers: int) -> None:
    """Every seed that is not there yet."""
    for seed in cell.seeds(seed_count):
        path, config = out / cell.name / str(seed), at_seed(cell.config, seed)
        if not finished(path, config):
            result_of(f"{cell.name} {seed}", prepare(config), workers, path, resume=True)


def finished_runs(cell: Cell, seed_count: int, out: Path) -> list[CellRun]:
    """The finished runs of a cell."""
    runs = []
    for seed in cell.seeds(seed_count):
        path = out / cell.name / str(seed)
        document = finished(path, at_seed(cell.config, seed))
        if document:
            even = margins(path / "state.cbor") if cell.evaluator == MARGINS else None
            runs.append(CellRun(seed, document, even))
    return runs


def at_seed(config: LabConfig, seed: int) -> LabConfig:
    """The same run under this seed."""
    return replace(config, run=replace(config.run, seed=seed))


def finished(path: Path, config: LabConfig) -> dict[str, Any] | None:
    """The document left here, if it is of this very configuration; told from the options, without
    reading the data.
    """
    if not (path / "result.json").exists():
        return None
    document: dict[str, Any] = json.loads((path / "result.json").read_text())
    from protofleet import registry

    recorded = document["config"]
    own = json.loads(
        json.dumps(
            {
                **to_plain(config.run),
                "partition_options": to_plain(config.partition),
                "settings": to_plain(
                    parse_pairs(registry.load(config.run.method).hyper, config.settings)
                ),
            }
        )
    )
    agreed = recorded["contract"]
    later = to_plain(Run())  # an option that came later had its default
    same = {name: recorded.get(name, later.get(name)) for name in own} == own
    training, numerics = to_plain(config.training), to_plain(config.numerics)
    return (
        document
        if same and agreed["training"] == training and agreed["numerics"] == numerics
        else None
    )


def margins(state: Path) -> float:
    """The smallest margin over the largest; a class's margin is the distance to the nearest other
    prototype.
    """
    means = unpack_state(state.read_bytes()).shared["prototypes"]
    assert isinstance(means, Prototypes)
    rows = means.vectors.astype(np.float64)
    apart = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    np.fill_diagonal(apart, np.inf)
    nearest = apart.min(1)
    return float(nearest.min() / nearest.max())


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


def changed(config: LabConfig, settings: Sequence[str] = (), **values: object) -> LabConfig:
    """The same run with some options of any section, and further settings of the method."""
    for name in ("run", "partition", "training", "numerics"):
        section = getattr(config, name)
        mine = {
            key: value
            for key, value in values.items()
            if key in {field.name for field in fields(section)}
        }
        config = replace(config, **{name: replace(section, **mine)})
    return replace(config, settings=(*config.settings, *settings))
