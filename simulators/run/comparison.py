"""Several runs beside each other: one table, one picture."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from protofleet import registry
from protofleet.errors import SettingError
from simulators.run import plots
from simulators.run.config import LabConfig
from simulators.run.progress import size, watched
from simulators.run.result import document
from simulators.run.rounds import LabOptions, run_in
from simulators.run.rundir import RunDir
from simulators.run.setup import Setup, prepare


@dataclass(frozen=True)
class Comparison:
    """The result documents, by name."""

    documents: Mapping[str, dict[str, Any]]


@dataclass(frozen=True)
class Line:
    """One run in the table."""

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


def compared(
    configs: Mapping[str, LabConfig], workers: int, out: Path | None, *, resume: bool
) -> Comparison:
    """Run them one after the other. A setting goes to the methods that have it; one that none has
    is an error.
    """
    chosen = {name: _own_settings(config) for name, config in configs.items()}
    # A setting that only some methods have is meant for those; one that none has is a slip.
    for pair in {pair for config in configs.values() for pair in config.settings}:
        if not any(pair in config.settings for config in chosen.values()):
            raise SettingError(f"none of these methods has the setting {pair.partition('=')[0]!r}")
    documents: dict[str, dict[str, Any]] = {}
    for name, config in chosen.items():
        documents[name] = result_of(
            name, prepare(config), workers, None if out is None else out / name, resume=resume
        )
    comparison = Comparison(documents)
    if out is not None:
        series = {line.name: _curve(documents[line.name]) for line in lines(comparison)}
        plots.curves(
            series, out / "compare.png", "accuracy per round", "accuracy (mean over devices)"
        )
        (out / "compare.json").write_text(json.dumps(documents, indent=1))
    return comparison


def result_of(
    label: str, setup: Setup, workers: int, path: Path | None, *, resume: bool
) -> dict[str, Any]:
    """A run's document: read where this very run is finished already, else made."""
    done = RunDir(path).result(setup) if path is not None and resume else None
    if done is not None:
        return done
    with watched(f"{label:<12}", setup.config.run.rounds) as watch:
        options = LabOptions(workers, common=True)
        return document(run_in(setup, options, watch, path, resume=resume))


def _own_settings(config: LabConfig) -> LabConfig:
    own = {f.name for f in fields(registry.load(config.run.method).hyper)}
    return replace(
        config, settings=tuple(p for p in config.settings if p.partition("=")[0].strip() in own)
    )


def _curve(result: Mapping[str, Any]) -> list[tuple[int, float]]:
    name = result["best"]["evaluator"]
    return [
        (row["round"], row["accuracy"][name]) for row in result["rounds"] if name in row["accuracy"]
    ]


def lines(comparison: Comparison) -> list[Line]:
    """The table's rows."""
    rows = []
    for name, result in comparison.documents.items():
        last, rounds, curve = result["final"]["each"], result["rounds"], _curve(result)
        best = result["best"]["accuracy"]
        # Of its own best, so the column says how fast a method is and not how good.
        enough = next((r for r, a in curve if best is not None and a >= 0.95 * best), None)
        rows.append(
            Line(
                name,
                ", ".join(sorted(set(result["config"]["backbones"].values()))),
                last.get("prototype"),
                last.get("head"),
                _common(result),
                best,
                _validation(result),
                enough,
                sum(r["up_bytes"] for r in rounds) / len(rounds),
                sum(r["down_bytes"] for r in rounds) / len(rounds),
                result["seconds"],
            )
        )
    return rows


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


def _common(result: Mapping[str, Any]) -> float | None:
    """The last round's on one test set, by the evaluator that the run is known by."""
    common: Mapping[str, float] = result["final"].get("common", {})
    name = result["best"]["evaluator"]
    return common.get(f"{name}_all_classes", common.get(name))


def _validation(result: Mapping[str, Any]) -> float | None:
    """The last round's, by the evaluator that the run is known by."""
    value: float | None = result["rounds"][-1]["validation"].get(result["best"]["evaluator"])
    return value


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f} %"
