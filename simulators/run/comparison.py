"""Several runs beside each other: one table, one picture."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import Any

from protofleet import registry
from protofleet.errors import SettingError, UsageError
from simulators.run import plots
from simulators.run.config import LabConfig
from simulators.run.intervals import Interval, interval
from simulators.run.progress import size, watched
from simulators.run.result import alike, curve, document
from simulators.run.rounds import Enough, LabOptions, never, run_in
from simulators.run.rundir import RunDir
from simulators.run.setup import Setup, Supplied, prepare
from simulators.run.workers import LabEngine, Local

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Comparison:
    """The result documents, by name: one a seed. `baseline` is who the others are held against."""

    documents: Mapping[str, Sequence[Document]]
    baseline: str = ""

    @property
    def seeds(self) -> int:
        """How many each was run with."""
        return max(map(len, self.documents.values()), default=0)

    def plain(self) -> dict[str, Any]:
        """By name: the document, or a list of them where there were several seeds."""
        one = self.seeds == 1
        return {name: all[0] if one else list(all) for name, all in self.documents.items()}


@dataclass(frozen=True)
class CompareOptions:
    """How much is run, and what becomes of it."""

    engine: LabEngine = field(default_factory=Local)
    seeds: int = 1
    baseline: str = ""
    out: Path | None = None
    resume: bool = False


@dataclass(frozen=True)
class Line:
    """One contender in the table; numbers are means over its seeds."""

    name: str
    network: str
    prototype: float | None
    head: float | None
    common: float | None  # of one test set for all devices, among all classes
    best: float | None
    validation: float | None
    rounds_to_95: int | None
    up_bytes: float
    down_bytes: float
    seconds: float


# A run with this many added to its seed, and what of it is not named but brought.
Plan = Callable[[int], tuple[LabConfig, Supplied]]


def planned(config: LabConfig) -> Plan:
    """Of what is named alone."""
    seed = config.run.seed
    return lambda extra: (replace(config, run=replace(config.run, seed=seed + extra)), Supplied())


def compared(plans: Mapping[str, Plan], how: CompareOptions) -> Comparison:
    """Run them, each with so many seeds from its own on. A setting goes to the
    methods that have it; one that none has is an error.
    """
    if how.baseline and how.baseline not in plans:
        raise UsageError(f"the baseline {how.baseline!r} is none of {', '.join(plans)}")
    if how.baseline and how.seeds < 2:
        raise UsageError("one seed says nothing against a baseline", "several seeds do, 5 say")
    first = {name: plan(0) for name, plan in plans.items()}
    # A setting that only some methods have is meant for those; one that none has is a slip.
    for pair in {pair for config, _ in first.values() for pair in config.settings}:
        if not any(pair in _own_settings(*run).settings for run in first.values()):
            raise SettingError(f"none of these methods has the setting {pair.partition('=')[0]!r}")
    # Seed by seed, so that what is there after a while says something of all of them.
    order = [(extra, name) for extra in range(how.seeds) for name in plans]
    runs = [partial(_one, name, plans[name], extra, how) for extra, name in order]
    made = dict(how.engine.each(runs))
    documents = {name: [made[name, extra] for extra in range(how.seeds)] for name in plans}
    comparison = Comparison(documents, how.baseline)
    if how.out is not None:
        draw(comparison, how.out / "compare.png")
        (how.out / "compare.json").write_text(json.dumps(comparison.plain(), indent=1))
    return comparison


def _one(
    name: str, plan: Plan, extra: int, how: CompareOptions, engine: LabEngine
) -> tuple[tuple[str, int], Document]:
    config, supplied = plan(extra)
    setup = prepare(_own_settings(config, supplied), supplied)
    seed = config.run.seed
    label = name if how.seeds == 1 else f"{name} {seed}"
    path = None if how.out is None else how.out / name
    path = path / f"seed-{seed}" if path is not None and how.seeds > 1 else path
    return (name, extra), result_of(label, setup, engine, path, resume=how.resume)


def draw(comparison: Comparison, path: Path) -> None:
    """Accuracy per round; of several seeds the mean, and a band where its 95 % interval is."""
    measured = {name: _by_round(all) for name, all in comparison.documents.items()}
    plots.curves(
        {name: [(r, i.mean) for r, i in each] for name, each in measured.items()},
        path,
        "accuracy per round",
        "accuracy (mean over devices)",
        bands={
            name: [(r, i.mean - i.half, i.mean + i.half) for r, i in each if isfinite(i.half)]
            for name, each in measured.items()
        },
    )


def _by_round(documents: Sequence[Document]) -> list[tuple[int, Interval]]:
    """Of the rounds that every seed was evaluated in."""
    curves = [dict(curve(document)) for document in documents]
    rounds = sorted(set.intersection(*(set(each) for each in curves)))
    return [(round, interval([each[round] for each in curves])) for round in rounds]


def result_of(
    label: str,
    setup: Setup,
    engine: LabEngine,
    path: Path | None,
    *,
    resume: bool,
    enough: Enough = never,
) -> dict[str, Any]:
    """A run's document: read where this very run is finished already, else made; `RunLeft` where
    enough of it is there before its end.
    """
    done = RunDir(path).result(setup) if path is not None and resume else None
    if done is not None:
        return done
    with watched(f"{label:<12}", setup.config.run.rounds, alone=not engine.beside) as watch:
        options = LabOptions(engine, common=True, enough=enough)
        return document(run_in(setup, options, watch, path, resume=resume))


def _own_settings(config: LabConfig, supplied: Supplied) -> LabConfig:
    recipe = supplied.recipe or registry.load(config.run.method)
    own = {f.name for f in fields(recipe.hyper)}
    return replace(
        config, settings=tuple(p for p in config.settings if p.partition("=")[0].strip() in own)
    )


def lines(comparison: Comparison) -> list[Line]:
    """The table's rows."""
    rows = []
    for name, documents in comparison.documents.items():
        shown = [_measures(document) for document in documents]
        networks = {n for d in documents for n in d["config"]["backbones"].values()}
        averages = [_mean([row[column] for row in shown]) for column in range(len(shown[0]))]
        prototype, head, common, best, validation, enough, *others = averages
        rounds = None if enough is None else round(enough)
        rows.append(
            Line(
                name,
                ", ".join(sorted(networks)),
                *(prototype, head, common, best, validation, rounds),
                *(number or 0.0 for number in others),
            )
        )
    return rows


def _measures(result: Document) -> tuple[float | None, ...]:
    """What the table shows of one run, in the order of its columns."""
    last, rounds, points = result["final"]["each"], result["rounds"], curve(result)
    best = result["best"]["accuracy"]
    # Of its own best, so the column says how fast a method is and not how good.
    enough = next((r for r, a in points if best is not None and a >= 0.95 * best), None)
    return (
        last.get("prototype"),
        last.get("head"),
        alike(result),
        best,
        _validation(result),
        enough,
        sum(r["up_bytes"] for r in rounds) / len(rounds),
        sum(r["down_bytes"] for r in rounds) / len(rounds),
        result["seconds"],
    )


def _mean(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return fmean(there) if len(there) == len(values) else None


def render(comparison: Comparison) -> str:
    """The table as text."""
    heads = (
        "method",
        "network",
        "prototype",
        "head",
        "one test set",
        "best",
        "validation",
        "95 % of best",
        "up/round",
        "down/round",
        "seconds",
    )
    rows: list[tuple[str, ...]] = [heads]
    for x in lines(comparison):
        after = "–" if x.rounds_to_95 is None else f"round {x.rounds_to_95}"
        shares = (x.prototype, x.head, x.common, x.best, x.validation)
        traffic = (size(x.up_bytes), size(x.down_bytes))
        rows.append(
            (x.name, x.network, *map(_percent, shares), after, *traffic, f"{x.seconds:.1f}")
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(heads))]
    table = [
        "  ".join(
            cell.ljust(w) if i < 2 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    if len({row[1] for row in rows[1:]}) > 1:
        table.append(
            "the networks differ, and with them what there is to gain: --backbone NAME is one for "
            "all"
        )
    return "\n".join(table)


def _validation(result: Document) -> float | None:
    """The last round's, by the evaluator that the run is known by."""
    value: float | None = result["rounds"][-1]["validation"].get(result["best"]["evaluator"])
    return value


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f} %"
