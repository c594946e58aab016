"""The laboratory from Python: what `protofleet simulate`, `compare` and `sweep` do, with the same
settings as keywords, on your own data, network, partition and method.

    import protofleet as pf

    result = pf.simulate("fedproto", (x, y), network=MyNet, agents=10, rounds=20)
    result.accuracy, result.frame(), result.plot()

    several = pf.compare(["local", "fedavg", "fedproto"], (x, y), seeds=5, baseline="fedavg")
    print(several)

A setting is called as the option of the command is, with underscores (`--lr-decay` is `lr_decay`);
what is no option is a setting of the method (`--set lam=1` is `lam=1`).
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from coordinator.config import UploadLimits
from edge_agent.data.dataset import DataSet
from protofleet import registry
from protofleet.contract import Numerics, Training
from protofleet.errors import SettingError, UsageError
from protofleet.recipe import Recipe
from protofleet.settings.fields import from_plain
from simulators.cluster.engine import Name
from simulators.cluster.engine import engine as engine_of
from simulators.run import supplied
from simulators.run.comparison import (
    CompareOptions,
    Comparison,
    Plan,
    compared,
    draw,
    render,
)
from simulators.run.config import BudgetOptions, LabConfig, MaskOptions, Run
from simulators.run.partitions import PartitionOptions, Shard
from simulators.run.progress import watched
from simulators.run.result import Row, document
from simulators.run.rounds import LabOptions, run_in
from simulators.run.setup import Supplied, prepare
from simulators.run.summary import as_csv, latex, summaries, text

# Where a keyword belongs; the first that has it.
SECTIONS: Mapping[str, type] = {
    "run": Run,
    "partition": PartitionOptions,
    "training": Training,
    "numerics": Numerics,
    "masks": MaskOptions,
    "budget": BudgetOptions,
}
OWN_WORDS = ("method", "dataset", "partition", "backbone")  # said by arguments of another name
Method = str | Recipe[Any]


@dataclass(frozen=True)
class Picture:
    """A PNG, which a notebook shows."""

    png: bytes

    def _repr_png_(self) -> bytes:
        return self.png

    def save(self, path: str | Path) -> None:
        """As a file."""
        Path(path).write_bytes(self.png)


@dataclass(frozen=True)
class Result:
    """One run: its document is what `simulate --json` prints."""

    document: Mapping[str, Any]

    @property
    def accuracy(self) -> float:
        """After the last round, the mean over devices."""
        return float(self.document["final"]["accuracy"])

    @property
    def state(self) -> str:
        """The hash of what the fleet knows in the end."""
        return str(self.document["state_sha256"])

    def rows(self) -> list[dict[str, Any]]:
        """One a round, flat: accuracies by evaluator, bytes, seconds."""
        return _rows(self.document)

    def frame(self) -> Any:
        """The same as a pandas data frame."""
        return _frame(self.rows())

    def plot(self) -> Picture:
        """Accuracy per round."""
        return _picture(Comparison({str(self.document["config"]["method"]): (self.document,)}))

    def __repr__(self) -> str:
        config = self.document["config"]
        words = f"{config['method']} on {config['dataset']}: {100 * self.accuracy:.2f} %"
        return f"<{words} after {self.document['final']['round']} rounds>"


@dataclass(frozen=True, repr=False)
class Results:
    """Several runs beside each other, of one seed or more."""

    comparison: Comparison

    def __getitem__(self, name: str) -> Result:
        """The first seed's of this name."""
        return Result(self.comparison.documents[name][0])

    @property
    def names(self) -> tuple[str, ...]:
        """Who was compared."""
        return tuple(self.comparison.documents)

    def accuracies(self) -> dict[str, list[float]]:
        """By name, one a seed: after the last round, the mean over devices."""
        return {
            name: [float(each["final"]["accuracy"]) for each in documents]
            for name, documents in self.comparison.documents.items()
        }

    def rows(self) -> list[dict[str, Any]]:
        """One a name, seed and round."""
        return [
            {"name": name, "seed": each["config"]["seed"], **row}
            for name, documents in self.comparison.documents.items()
            for each in documents
            for row in _rows(each)
        ]

    def frame(self) -> Any:
        """The same as a pandas data frame."""
        return _frame(self.rows())

    def plot(self) -> Picture:
        """Accuracy per round, with bands where there are several seeds."""
        return _picture(self.comparison)

    def csv(self) -> str:
        """Mean, interval and difference from the baseline of each."""
        return as_csv(self.comparison)

    def latex(self) -> str:
        """The same as a tabular."""
        return latex(self.comparison)

    def p(self, name: str) -> float:
        """That this one's accuracy is its baseline's: the paired t-test's p over seeds."""
        score = next(each.own for each in summaries(self.comparison) if each.name == name)
        if score is None or score.gap is None:
            raise UsageError(f"{name} was held against nothing", "baseline=…, seeds=5")
        return score.gap.p

    def __repr__(self) -> str:
        table = render(self.comparison)
        return f"{table}\n\n{text(self.comparison)}" if self.comparison.seeds > 1 else table


def simulate(
    method: Method = "fleet",
    data: Any = "digits",
    *,
    network: Any = "",
    partition: str | supplied.Rows = "dirichlet",
    classes: Sequence[str] = (),
    workers: int | None = None,
    engine: Name = "lab",
    address: str = "",
    progress: bool = True,
    out: str | Path | None = None,
    resume: bool = False,
    **options: Any,
) -> Result:
    """One method on one partition. `data` is a name, a path, arrays `(x, y)` or two of each for
    training and tests, or a torch `Dataset`; `network` a name, a torch module (where all devices
    begin) or what makes one; `partition` a kind, or the rows of each device.
    """
    brought = Brought(data, network, partition, tuple(classes))
    setup = prepare(*brought.plan(method, options)(0))
    label = f"{setup.config.run.method} on {setup.config.run.dataset}"
    watching = watched(label, setup.config.run.rounds) if progress else nullcontext(_silent)
    with engine_of(engine, workers, address) as where, watching as watch:
        how = LabOptions(where, common=True)
        outcome = run_in(setup, how, watch, None if out is None else Path(out), resume=resume)
    return Result(document(outcome))


def compare(
    methods: Sequence[Method],
    data: Any = "digits",
    *,
    network: Any = "",
    partition: str | supplied.Rows = "dirichlet",
    classes: Sequence[str] = (),
    seeds: int = 1,
    baseline: str = "",
    workers: int | None = None,
    engine: Name = "lab",
    address: str = "",
    out: str | Path | None = None,
    resume: bool = False,
    **options: Any,
) -> Results:
    """Several methods on the same partition; with `seeds` each so often, and their differences from
    the `baseline` paired by seed. A setting goes to the methods that have it.
    """
    brought = Brought(data, network, partition, tuple(classes))
    own = {name for method in methods for name in _settings(method)}
    plans = {_name(method): brought.plan(method, options, own) for method in methods}
    if not plans:
        raise UsageError("there is no method to compare")
    folder = None if out is None else Path(out)
    with engine_of(engine, workers, address) as where:
        return Results(compared(plans, CompareOptions(where, seeds, baseline, folder, resume)))


def sweep(
    grid: Mapping[str, Sequence[Any]],
    method: Method = "fleet",
    data: Any = "digits",
    *,
    network: Any = "",
    partition: str | supplied.Rows = "dirichlet",
    classes: Sequence[str] = (),
    seeds: int = 1,
    baseline: str = "",
    workers: int | None = None,
    engine: Name = "lab",
    address: str = "",
    out: str | Path | None = None,
    resume: bool = False,
    **options: Any,
) -> Results:
    """One method at every point of a grid: `sweep({"lam": [0.1, 1], "lr": [0.01, 0.03]})`."""
    if not grid or not all(grid.values()):
        raise UsageError("an axis of the grid has no values")
    if len(grid.get("seed", ())) > 1:
        raise UsageError("seeds are no axis of a grid", "seeds=5 runs every point with five")
    brought = Brought(data, network, partition, tuple(classes))
    points = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    plans = {
        " ".join(f"{name}={value}" for name, value in point.items()): brought.plan(
            method, {**options, **point}
        )
        for point in points
    }
    folder = None if out is None else Path(out)
    with engine_of(engine, workers, address) as where:
        return Results(compared(plans, CompareOptions(where, seeds, baseline, folder, resume)))


@dataclass(frozen=True)
class Brought:
    """What a call brings, named or in person."""

    data: Any
    network: Any
    partition: str | supplied.Rows
    classes: tuple[str, ...]

    def plan(self, method: Method, options: Mapping[str, Any], own: Collection[str] = ()) -> Plan:
        """A run of it; `own` are settings of other methods that it stands beside."""
        name, recipe = supplied.method(method)
        config = _config(options, {*own, *_settings(method)})
        backbone, networks = supplied.networks(self.network)
        run = replace(config.run, method=name, backbone=backbone)
        there = isinstance(networks.get(backbone), supplied.Copies)
        if there and run.common_start == "auto":
            run = replace(run, common_start="yes")  # a module that is there has its weights

        def at(extra: int) -> tuple[LabConfig, Supplied]:
            data, shards, mine = self._dealt(replace(run, seed=run.seed + extra), config.partition)
            return replace(config, run=mine), Supplied(data, shards, recipe, networks)

        return at

    def _dealt(
        self, run: Run, options: PartitionOptions
    ) -> tuple[DataSet | None, tuple[Shard, ...], Run]:
        by_rows = not isinstance(self.partition, str)
        if isinstance(self.data, (str, Path)):
            if by_rows:
                raise UsageError("rows of a set that has a name", "bring the data with them")
            named = {"dataset": str(self.data), "partition": self.partition}
            return None, (), from_plain(Run, {**vars(run), **named})
        data = supplied.data_set(self.data, self.classes, run.seed, in_order=by_rows)
        run = replace(run, dataset=data.name)
        if isinstance(self.partition, str):
            return data, (), from_plain(Run, {**vars(run), "partition": self.partition})
        shards = supplied.shards(self.partition, data, run.seed, options)
        return data, shards, replace(run, agents=len(shards))


def _name(method: Method) -> str:
    return method if isinstance(method, str) else method.name


def _settings(method: Method) -> list[str]:
    recipe = registry.load(method) if isinstance(method, str) else method
    return [field.name for field in fields(recipe.hyper)]


def _silent(row: Row) -> None:
    """Whoever wants no progress."""


def _config(options: Mapping[str, Any], own: Collection[str]) -> LabConfig:
    values: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    names = {
        section: [f.name for f in fields(kind) if f.name not in OWN_WORDS]
        for section, kind in SECTIONS.items()
    }
    settings = []
    for name, value in options.items():
        if name == "admission":
            continue
        section = next((s for s, have in names.items() if name in have), None)
        if section is not None:
            values[section][name] = value
        elif name in own:
            settings.append(f"{name}={value}")
        else:
            known = [*own, *(each for have in names.values() for each in have)]
            near = difflib.get_close_matches(name, known, 1)
            raise SettingError(
                f"no setting is called {name!r}", f"did you mean {near[0]}?" if near else ""
            )
    made: dict[str, Any] = {
        section: from_plain(kind, values[section]) for section, kind in SECTIONS.items()
    }
    admission = from_plain(UploadLimits, dict(options.get("admission", {})))
    return LabConfig(**made, settings=tuple(settings), admission=admission)


def _rows(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "round": row["round"],
            **{f"accuracy_{name}": value for name, value in row["accuracy"].items()},
            **{f"validation_{name}": value for name, value in row["validation"].items()},
            **{name: row[name] for name in ("up_bytes", "down_bytes", "seconds")},
        }
        for row in result["rounds"]
    ]


def _frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    try:
        import pandas
    except ImportError as error:
        raise UsageError("pandas is not installed", "pip install pandas; or take rows()") from error
    return pandas.DataFrame(list(rows))


def _picture(comparison: Comparison) -> Picture:
    with TemporaryDirectory(prefix="protofleet-") as folder:
        path = Path(folder) / "curves.png"
        draw(comparison, path)
        return Picture(path.read_bytes())
