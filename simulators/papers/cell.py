"""A cell: one figure of a paper, the run that answers it, and what is asked of the answer."""

# Theory of operation
#
# A cell is a promise made before the run: a paper's figure, the settings that the paper gives, and
# what is asked of the outcome (its aims). Runs lie in OUT/CELL/SEED, are made once and found again;
# what the page needs of a finished one is kept in a record as well (`records.py`), which outlives
# the run's folder.
#
# 1. A run counts for a cell only if its recorded configuration is the cell's own (`finished`). So a
#    cell whose settings are changed loses its runs by itself, and no figure stands beside settings
#    that did not make it. This is decided from options alone: resolving them fully would take the
#    data, and the page must be made where no data is.
# 2. An option that came after a run was recorded is taken to have had its default then; that is
#    what a new option's default has to be.
# 3. Seeds go over everything drawn. Where a paper fixes its devices (`partition_seed`), they stay
#    and only weights and orders change.
# 4. The figure that is compared is the one that the paper reports: of the last round or the best
#    (`pick`), as a mean over devices or pooled over samples (`over`). The best round is chosen on
#    the test split; that is the papers' way and stands in the table as what it is.
# 5. The best of so many rounds can only rise. So where the paper reports the best, a run that is
#    not over has reached its figure as soon as its best so far has (`settled`), and may be left
#    there for the next (`decide`); how much better it would become is not known then, and what is
#    asked of two cells side by side waits for the end of both.
# 6. A reading answers the same figure by other settings, or by another round or more seeds of the
#    same runs, where a paper leaves something open. It is a cell of its own and never replaces one:
#    choosing the best of several after the fact would make every figure come true.
#
#     aim         is reached when
#     figure      ours is not below the paper's by more than the paper's own deviation, or by more
#                 than 0.5 points where it gives none
#     above       ours less another cell's, seed by seed, is at least so much (or above zero)
#     within      ours less another cell's, seed by seed, is so much at most either way
#     at least    ours is at least so much
#     below       ours is below so much

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from protofleet.errors import (
    CheckpointError,
    FleetError,
    FusionError,
    RunLeft,
    TrainingDiverged,
    UsageError,
    ValueRefused,
)
from protofleet.exchange.snapshot import unpack_state
from protofleet.util.files import Locked, lock
from protofleet.values.prototypes import Prototypes
from simulators.papers import records
from simulators.papers.records import Over, Pick, RunRecord
from simulators.run import maps
from simulators.run.comparison import result_of
from simulators.run.config import LabConfig
from simulators.run.result import Row
from simulators.run.rounds import Enough, LabOptions, never, run
from simulators.run.rundir import RunDir
from simulators.run.setup import prepare
from simulators.run.workers import LabEngine

MARGINS = "margins"  # instead of an evaluator: the evenness of the final prototypes
SLACK = 0.005  # what a figure without a deviation may be missed by


@dataclass(frozen=True)
class Aim:
    """What is asked: the paper's own figure, or so much more than another cell, or a number to
    reach or stay under.
    """

    kind: Literal["figure", "above", "within", "at least", "below"]
    amount: float = 0.0
    other: str = ""  # the cell to be above, or near


@dataclass(frozen=True)
class Cell:
    """A figure of a paper and the run that answers it; a reading answers the same figure in another
    way that the paper leaves open.
    """

    name: str
    title: str
    config: LabConfig
    evaluator: str  # or MARGINS
    paper: float | None = None
    paper_std: float = 0.0
    aims: tuple[Aim, ...] = (Aim("figure"),)
    pick: Pick = "last"  # the round that the paper reports
    over: Over = "devices"  # the mean over devices, or right answers over all samples together
    where: str = ""  # the paper's table or figure
    paper_floats: int | None = None
    seeds: int = 3  # how many are due
    cut: str = ""
    note: str = ""
    reading_of: str = ""
    runs: str = ""  # the cell whose runs these are, where two figures are of one run

    @property
    def home(self) -> str:
        """Under which name its runs are kept."""
        return self.runs or self.name

    def due(self, most: int | None = None) -> range:
        """The seeds that this cell wants, or the first few of them."""
        return range(self.seeds if most is None else min(self.seeds, most))

    @property
    def slack(self) -> float:
        """By how much ours may be below the paper's figure."""
        return self.paper_std or SLACK

    def value(self, record: RunRecord, pick: Pick | None = None) -> float:
        """The cell's figure in a run: in the round that the paper reports, or in another."""
        if self.evaluator == MARGINS:
            return float(record.document.get("margins", float("nan")))
        return record.accuracy(self.evaluator, self.over, pick or self.pick)

    def value_after(self, record: RunRecord, rounds: int) -> float:
        """What the figure was when a run had come so far."""
        values = [value for number, value in record.curve(self.over) if number <= rounds]
        if not values:
            return float("nan")
        return max(values) if self.pick == "best" else values[-1]

    @property
    def rises(self) -> bool:
        """Whether the figure of a run that is not over is the least that it can come to."""
        return self.pick == "best" and self.paper is not None and self.evaluator != MARGINS

    def settled(self, record: RunRecord | None) -> bool:
        """Whether the paper's figure is reached by what a run that is not over has so far."""
        if record is None or not self.rises or self.paper is None or record.failure:
            return False
        return self.value(record) >= self.paper - self.slack

    def enough(self, rows: Sequence[Row]) -> bool:
        """The same of the rows of a run that is under way."""
        if not self.rises or self.paper is None:
            return False
        figures = (row.accuracy if self.over == "devices" else row.pooled for row in rows)
        return any(f.get(self.evaluator, 0.0) >= self.paper - self.slack for f in figures)


@dataclass(frozen=True)
class Places:
    """Where whole runs are, and where what is kept of them is."""

    runs: Path
    records: Path | None = None

    def run(self, cell: Cell, seed: int) -> Path:
        """A run's own folder."""
        return self.runs / cell.home / str(seed)


def run_seed(
    cell: Cell, seed: int, places: Places, engine: LabEngine, *, decide: bool = False
) -> bool:
    """This seed, if it is not there yet; what is kept of it is written when it is finished, or left
    because its figure is reached (`decide`). False where another process is at it.
    """
    if recorded(cell, seed, places) is not None:
        return True
    if decide and cell.settled(standing(cell, seed, places)):
        return True
    path, config = places.run(cell, seed), at_seed(cell.config, seed)
    try:
        claim = lock(path)
    except Locked:
        return False
    with claim:
        result = finished(path, config)
        if result is None:
            try:
                _run(cell, seed, places, engine, cell.enough if decide else never)
            except RunLeft:
                keep_run(cell, seed, places)
        else:
            _keep(_record(cell, result, path), places)
    return True


def _run(cell: Cell, seed: int, places: Places, engine: LabEngine, enough: Enough) -> None:
    path, config = places.run(cell, seed), at_seed(cell.config, seed)
    setup, label = prepare(config), f"{cell.home} {seed}"
    try:
        try:
            result_of(label, setup, engine, path, resume=True, enough=enough)
        except CheckpointError:
            # A run of other settings, or one that cannot be read. Nobody is there to be asked.
            _put_aside(path)
            result_of(label, setup, engine, path, resume=True, enough=enough)
    except (TrainingDiverged, ValueRefused, FusionError) as error:
        # Numbers that are not finite, or too large to be summed: it would end so again.
        _keep(records.failed(cell.home, config, str(error), newest_round(path)), places)
        raise
    result = finished(path, config)
    assert result is not None, "a run that has just ended is there"
    _keep(_record(cell, result, path, data=records.digest(setup.data)), places)


def recorded(cell: Cell, seed: int, places: Places) -> RunRecord | None:
    """What is on record of a seed under the cell's present settings, if it is over."""
    record = None if places.records is None else records.read(places.records, cell.home, seed)
    if record is None or not (record.finished or record.failure):
        return None
    ours = records.same(record.document["config"], at_seed(cell.config, seed))
    return record if ours else None


def kept(cell: Cell, seed: int, places: Places) -> RunRecord | None:
    """What is there of a seed under the cell's present settings: finished, failed, or nothing."""
    record = recorded(cell, seed, places)
    if record is not None:
        return record
    path = places.run(cell, seed)
    result = finished(path, at_seed(cell.config, seed))
    return None if result is None else _record(cell, result, path)


def standing(cell: Cell, seed: int, places: Places) -> RunRecord | None:
    """Where an unfinished run stands: by its newest checkpoint, or by what was kept of it."""
    path, config = places.run(cell, seed), at_seed(cell.config, seed)
    checkpoints = sorted(path.glob("checkpoint-*/rows.json"))
    if checkpoints and left_by(path, config):
        resolved = {"config": json.loads((path / "config.json").read_text())}
        rows = json.loads(checkpoints[-1].read_text())
        return _record(cell, {**resolved, "rounds": rows, "partition": {"agents": {}}}, path)
    record = None if places.records is None else records.read(places.records, cell.home, seed)
    unfinished = record is not None and not record.finished and not record.failure
    if record is None or not unfinished or not records.same(record.document["config"], config):
        return None
    return record


def keep_run(cell: Cell, seed: int, places: Places) -> None:
    """Put on record what a run's folder has: its result, or where it stands; the folder may be gone
    one day.
    """
    if recorded(cell, seed, places) is None:
        record = kept(cell, seed, places) or standing(cell, seed, places)
        if record is not None:
            _keep(record, places)


def keep_embeddings(cell: Cell, seed: int, places: Places) -> None:
    """Embed samples by the weights that a finished run left, where it did not do so itself."""
    path, config = places.run(cell, seed), at_seed(cell.config, seed)
    # Without its last checkpoint it would be run all over again.
    whole = (path / f"checkpoint-{config.run.rounds:06d}").exists()
    if not whole or finished(path, config) is None or (path / maps.FILE).exists():
        return
    # Without its data, its weights, or the versions that made it there is no picture, and no harm.
    with suppress(FleetError, OSError):
        outcome = run(prepare(config), LabOptions(), lambda row: None, RunDir(path), resume=True)
        samples = maps.EmbeddedSamples.of(outcome)
        if samples is not None:
            samples.write(path)


def runs_of(cell: Cell, places: Places, most: int | None = None) -> list[RunRecord]:
    """The finished runs of a cell, by seed."""
    there = [kept(cell, seed, places) for seed in cell.due(most)]
    return [record for record in there if record is not None and not record.failure]


def _keep(record: RunRecord, places: Places) -> None:
    if places.records is not None:
        records.write(record, places.records)


def _record(cell: Cell, result: dict[str, Any], path: Path, **more: object) -> RunRecord:
    evaluator = "prototype_all_classes" if cell.evaluator == MARGINS else cell.evaluator
    # Of every run that has prototypes: another cell may ask for them.
    even = margins(path / "state.cbor") if (path / "state.cbor").exists() else None
    if even is not None:
        more["margins"] = round(even, 6)
    if cell.cut:
        more["cut"] = cell.cut
    return records.record_of(cell.home, evaluator, result, **more)


def _put_aside(path: Path) -> None:
    """Out of the way, under the next free name; the lock stays where it is."""
    number = 1
    while (aside := path.with_name(f"{path.name}.before-{number}")).exists():
        number += 1
    aside.mkdir()
    for entry in path.iterdir():
        if entry.name != "lock":
            entry.rename(aside / entry.name)


def left_by(path: Path, config: LabConfig) -> bool:
    """Whether what lies in this folder is a run's of this very configuration, ended or not."""
    file = path / "config.json"
    if not file.exists():
        return False
    return records.same(records.config_in({"config": json.loads(file.read_text())}), config)


def newest_round(path: Path) -> int:
    """After which round a run's newest checkpoint was written; 0 without one."""
    checkpoints = sorted(path.glob("checkpoint-*"))
    return int(checkpoints[-1].name.partition("-")[2]) if checkpoints else 0


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
    return document if records.same(records.config_in(document), config) else None


def margins(state: Path) -> float | None:
    """The smallest margin over the largest, where there are prototypes; a class's margin is the
    distance to the nearest other prototype.
    """
    means = unpack_state(state.read_bytes()).shared.get("prototypes")
    if not isinstance(means, Prototypes) or len(means.vectors) < 2:
        return None
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
    sections = ("run", "partition", "training", "numerics")
    own = {name: {f.name for f in fields(getattr(config, name))} for name in sections}
    unknown = values.keys() - set().union(*own.values())
    if unknown:
        raise UsageError(f"no option is called {', '.join(sorted(unknown))}")
    for name in sections:
        mine: dict[str, Any] = {key: values[key] for key in values.keys() & own[name]}
        config = replace(config, **{name: replace(getattr(config, name), **mine)})
    return replace(config, settings=(*config.settings, *settings))
