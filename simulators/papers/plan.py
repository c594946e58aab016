"""What is run when: the cells in the order in which one wants to know them, how long each takes,
and what is there.
"""

# Theory of operation
#
# A plan is a row of steps, a step some cells and how many of their seeds. What decides the most
# figures of the papers in an hour comes first: one seed of a figure before its second, minutes
# before hours, and of the cheap experiments those that tell why a figure is missed. Then one seed
# of what takes hours, the smaller experiments, and the seeds that are left. A seed that two steps
# name is run by the first.
#
# `figures` is the same by figure: which cell decides it, and what its first seed still takes, the
# quickest first. A run that answers several figures is counted once.
#
# How long a run takes is known from its like: from finished records of the cell, else from rounds
# that were timed (`measure`), of the cell or of one of its kind (`kind_of`: the same method,
# network, data, batches and arithmetic), by the samples that a round trains on. Times are of one
# process with a core to itself on the machine that measured them; they order nothing and promise
# nothing, they say when to look again.

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from time import process_time
from typing import Literal

from protofleet.util.files import write_whole
from simulators.papers import papers, readings, sweeps
from simulators.papers.cell import Cell, Places, at_seed, changed, kept, recorded, standing
from simulators.papers.records import config_of, read, same
from simulators.run.partitions import TEST_SHARE
from simulators.run.rounds import LabOptions, run
from simulators.run.setup import prepare

TIMES = "minutes.json"
# Rounds that are timed, after those in which the step is compiled and memory is first taken.
FIRST, TIMED = 1, 3
ENOUGH = 8000  # samples, of which a round is long enough to be timed
# What two runs of one kind have in common.
_COSTLY = {
    "run": ("method", "dataset", "backbone", "embedding", "resize", "test_on"),
    "training": ("batch_size", "local_epochs", "augment"),
    "numerics": ("device", "threads", "compile", "layout", "dtype"),
}
SIZES = {
    "digits": 1797,
    "spiral": 30_000,
    "mnist": 70_000,
    "fashion-mnist": 70_000,
    "cifar10": 60_000,
}


@dataclass(frozen=True)
class Step:
    """Cells that are run one after the other, and how many of their seeds, all where none says."""

    title: str
    cells: tuple[Cell, ...]
    seeds: int | None = None


# Figures of the papers' further tables that take a minute or two.
_QUICK = (*sweeps.GFPL_SWEEPS[:2], *sweeps.MPFEDCL_SWEEPS[:3])
_THREE_WAYS = tuple(r for r in readings.GFPL_READINGS if r.reading_of == "gfpl-mnist-3")
_FASHION = (*papers.FEDMPS_FASHION, papers.FEDPROTO[1])
_CIFAR = (*papers.FEDMPS_CIFAR, papers.FEDPROTO[0])
STEPS = (
    # About six hours of one process, and two thirds of the figures of the main tables.
    Step("MP-FedCL", papers.MPFEDCL),
    Step("GFPL", papers.GFPL, 1),
    Step("FedMPS, CIFAR-10", _CIFAR, 1),
    Step("FedMPS, table VII", papers.ABLATION),
    Step("GFPL's baseline and MP-FedCL's variants", _QUICK, 1),
    Step("why three ways: readings of GFPL", (*_THREE_WAYS, *readings.GFPL_BOUNDS)),
    Step("readings of MP-FedCL", readings.MPFEDCL_READINGS, 1),
    Step("FedMPS, Fashion-MNIST", _FASHION, 1),
    Step("FedMPS, table VI, three classes", sweeps.THREE),
    Step("GFPL, all seeds", papers.GFPL),
    Step("the spiral", (*papers.SPIRALS, *readings.SPIRAL_READINGS)),
    Step("Whether running faster changes what comes out", sweeps.SPEED, 1),
    Step("FedMPS, CIFAR-10, all seeds", _CIFAR),
    # From here on a seed takes hours.
    Step("FedIC, two classes a device", papers.FEDIC_PAIRS, 1),
    Step("FedIC, Dir(0.1)", papers.FEDIC_DIR[:1], 1),
    Step("ProtoNorm", papers.PROTONORM, 1),
    Step("FedMPS, Fashion-MNIST, all seeds", _FASHION),
    Step("FedMPS, table VI, four and five classes", sweeps.CLASSES),
    Step("GFPL's components, its table 2", sweeps.COMPONENTS),
    Step(
        "small experiments on MNIST",
        (*sweeps.MPFEDCL_SWEEPS, *sweeps.MPFEDCL_CLIENTS, *sweeps.GFPL_SWEEPS),
    ),
    Step(
        "all readings of MP-FedCL and GFPL",
        (
            *readings.MPFEDCL_READINGS,
            *readings.SPLIT_READINGS,
            *readings.PCL_READINGS,
            *readings.VARIANT_READINGS,
            *readings.GFPL_READINGS,
        ),
    ),
    Step("FedProto and FedPAC, Dir(0.1)", papers.FEDIC_DIR[1:], 1),
    Step("FedIC, CIFAR-10", papers.FEDIC_CIFAR, 1),
    Step(
        "readings of FedMPS",
        (
            *readings.ABLATION_READINGS,
            *readings.CIFAR_READINGS,
            *readings.FASHION_READINGS,
            *readings.CLASSES_READINGS,
        ),
    ),
    Step(
        "FedMPS by spread, clients and temperatures",
        (*sweeps.SPREADS, *sweeps.TEMPERATURES, *sweeps.CLIENTS),
    ),
    Step("ProtoNorm's settings", sweeps.PROTONORM_SWEEPS),
    Step("FedIC's settings", sweeps.FEDIC_SWEEPS),
    Step("Whether running faster changes what comes out, all seeds", sweeps.SPEED),
    Step("ProtoNorm, all seeds", (*papers.PROTONORM, *sweeps.PROTONORM_MARGINS)),
    Step("FedIC on Fashion-MNIST, all seeds", (*papers.FEDIC_PAIRS, *papers.FEDIC_DIR)),
    Step(
        "two classes a device of CIFAR-10", (*papers.PROTONORM_PAIRS, *papers.FEDIC_CIFAR_PAIRS), 1
    ),
    Step("readings of FedIC", readings.FEDIC_READINGS),
    Step("FedIC on CIFAR-10, all seeds", (*papers.FEDIC_CIFAR, *papers.FEDIC_CIFAR_PAIRS)),
    Step("two classes a device, ProtoNorm, all seeds", papers.PROTONORM_PAIRS),
)


@dataclass(frozen=True)
class PlannedSeed:
    """A seed of a cell, in its place in the plan."""

    step: str
    cell: Cell
    seed: int


def tasks(steps: Sequence[Step] = STEPS, most: int | None = None) -> list[PlannedSeed]:
    """Every seed of every cell once, in order."""
    planned: dict[tuple[str, int], PlannedSeed] = {}
    for step in steps:
        # Seed by seed, so that what is there can be compared early.
        for seed in range(max(len(cell.due(most)) for cell in step.cells)):
            for cell in step.cells:
                seeds = len(cell.due(most))
                if seed < min(seeds, step.seeds or seeds):
                    planned.setdefault((cell.name, seed), PlannedSeed(step.title, cell, seed))
    return list(planned.values())


def missing(
    planned: Sequence[PlannedSeed], places: Places, *, decide: bool = False
) -> Iterator[PlannedSeed]:
    """Those that are not on record yet, or, to decide figures, that have not reached theirs; where
    two figures are of one run, it is named once.
    """
    homes = set()
    for task in planned:
        # Of two figures of one run the one may be reached while the other is not.
        home = (task.cell.name if decide else task.cell.home, task.seed)
        if home not in homes and recorded(task.cell, task.seed, places) is None:
            if decide and task.cell.settled(standing(task.cell, task.seed, places)):
                continue
            homes.add(home)
            yield task


@dataclass(frozen=True)
class PlannedFigure:
    """A figure of a paper, and how far it is from being decided."""

    cell: Cell
    state: Literal["there", "to run", "by another"]  # by the run of another figure
    minutes: float | None  # of its first seed; None where nothing like it was timed


def figures(cells: Sequence[Cell], places: Places, known: Times) -> list[PlannedFigure]:
    """The papers' figures among these cells, those that take least first."""
    planned, homes = [], set()
    for cell in (cell for cell in cells if cell.paper is not None):
        minutes = known.minutes(cell, places)
        # One seed decides a figure, and a run is made once however many figures it answers.
        if kept(cell, 0, places) is not None:
            planned.append(PlannedFigure(cell, "there", 0.0))
        else:
            planned.append(
                PlannedFigure(cell, "by another" if cell.home in homes else "to run", minutes)
            )
        homes.add(cell.home)
    return sorted(planned, key=lambda figure: (figure.minutes is None, figure.minutes or 0.0))


def kind_of(cell: Cell) -> str:
    """Two cells of one kind take as long for a sample."""
    config = config_of(at_seed(cell.config, 0))
    return json.dumps({name: [config[name][k] for k in keys] for name, keys in _COSTLY.items()})


def samples(cell: Cell) -> int:
    """About how many a round trains on."""
    run, options = cell.config.run, cell.config.partition
    if run.partition == "few-shot":
        return run.agents * options.ways * options.shots
    size = options.limit or SIZES.get(run.dataset.partition(":")[0], 1)
    return max(1, int(size * (1 - TEST_SHARE)))


@dataclass(frozen=True)
class Times:
    """Seconds a round, by cell; seconds a sample, by kind."""

    seconds: Mapping[str, float]
    kinds: Mapping[str, float]

    def minutes(self, cell: Cell, places: Places) -> float | None:
        """A whole run's; None where nothing like it was timed."""
        ended = [recorded(cell, seed, places) for seed in cell.due()]
        own = [r.seconds / r.rounds for r in ended if r is not None and r.rounds and not r.failure]
        like = self.kinds.get(kind_of(cell))
        timed = self.seconds.get(cell.home, None if like is None else like * samples(cell))
        seconds = fmean(own) if own else timed
        return None if seconds is None else seconds * cell.config.run.rounds / 60


def times(folder: Path | None) -> Times:
    """What was measured, as it lies beside the records."""
    path = None if folder is None else folder / TIMES
    seconds = json.loads(path.read_text()) if path is not None and path.exists() else {}
    cells = readings.every_cell()
    timed = {name: cells[name] for name in seconds if name in cells}
    kinds = {kind_of(cell): seconds[name] / samples(cell) for name, cell in timed.items()}
    return Times(seconds, kinds)


def measure(cell: Cell) -> float:
    """Seconds a round, of a few; nothing is left of them. Of a large set a part is timed, and the
    rest reckoned.
    """
    config = changed(at_seed(cell.config, 0), rounds=FIRST + TIMED)
    if config.run.partition != "few-shot" and samples(cell) > ENOUGH:
        config = changed(config, limit=ENOUGH)
    clock = [process_time()]
    # Of the processor, not of the wall: what else the machine does should not count.
    run(prepare(config), LabOptions(), lambda row: clock.append(process_time()))
    seconds = median(after - before for before, after in pairwise(clock[FIRST:]))
    return seconds * samples(cell) / samples(replace(cell, config=config))


def write_times(folder: Path, seconds: Mapping[str, float]) -> None:
    """Keep what was measured."""
    folder.mkdir(parents=True, exist_ok=True)
    document = dict(sorted(seconds.items()))
    write_whole(folder / TIMES, (json.dumps(document, indent=1) + "\n").encode())


def state_of(cell: Cell, places: Places, most: int | None = None) -> str:
    """What is there of a cell, in a few words."""
    seeds = cell.due(most)
    there = [kept(cell, seed, places) for seed in seeds]
    ended = [record for record in there if record is not None]
    failures = [record for record in ended if record.failure]
    words = []
    if ended:
        words.append(f"{len(ended) - len(failures)} of {len(seeds)} seeds")
    if failures:
        words.append(f"{len(failures)} ended in numbers that are not finite")
    for seed in seeds:
        stands = None if there[seed] is not None else standing(cell, seed, places)
        if stands is not None:
            words.append(f"seed {seed} in round {stands.rounds} of {cell.config.run.rounds}")
    return "; ".join(words) or "not run"


def foreign(places: Places) -> list[str]:
    """Records that count for no cell as it is now: their settings, or names, are of another day."""
    if places.records is None:
        return []
    homes = {cell.home: cell for cell in readings.every_cell().values()}
    names = []
    for path in sorted(places.records.glob("*/*.json")):
        cell_name, seed = path.parent.name, path.stem
        record = read(places.records, cell_name, int(seed)) if seed.isdigit() else None
        owner = homes.get(cell_name)
        fits = (
            record is not None
            and owner is not None
            and same(record.document["config"], at_seed(owner.config, int(seed)))
        )
        if not fits:
            names.append(f"{cell_name}/{seed}")
    return names


def duration(minutes: float) -> str:
    """Minutes as a person reads them."""
    if minutes < 1:
        return "1 min"
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
