"""What a run says of itself: rows as they come, and the one document that `--json` prints and
`result.json` holds.
"""

from __future__ import annotations

import csv
import io
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from statistics import fmean, pstdev
from typing import Any

import numpy as np

from edge_agent.training.evaluate import Tallies, Tally
from protofleet.budget.private import Private
from protofleet.exchange import learned
from protofleet.exchange.state import GlobalState
from protofleet.scoring import primary
from protofleet.settings.fields import to_plain
from simulators.run.setup import Setup
from simulators.run.workers import Embedded

# Read by the page of results and by other people's scripts: a field may be added, and none may
# change its meaning without another number.
SCHEMA = 1
Numbers = Mapping[str, float]


@dataclass(frozen=True)
class Traffic:
    """What crossed in one direction in one round."""

    bytes: int = 0
    floats: int = 0


@dataclass(frozen=True)
class Row:
    """One round. Accuracies are fractions, means over devices but for `pooled`; empty in rounds
    without evaluation.
    """

    round: int
    accuracy: Numbers = field(default_factory=dict)
    accuracy_std: Numbers = field(default_factory=dict)
    validation: Numbers = field(default_factory=dict)
    per_agent: Mapping[str, Numbers] = field(default_factory=dict)
    per_class: Mapping[str, Sequence[float | None]] = field(default_factory=dict)
    up_bytes: int = 0
    down_bytes: int = 0
    up_floats: int = 0
    down_floats: int = 0
    paper_floats: int = 0
    seconds: float = 0.0
    pooled: Numbers = field(default_factory=dict)  # right answers of all devices' samples together
    refused: Mapping[str, str] = field(default_factory=dict)  # by device, why its upload was
    lost: Mapping[str, str] = field(
        default_factory=dict
    )  # by device, at which step of a masked sum
    epsilon: float = 0.0  # of the budget, after this round
    # On one test set for all devices (`Setup.common_samples`), in the last round.
    common: Numbers = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """A finished run."""

    setup: Setup
    state: GlobalState
    rows: tuple[Row, ...]
    seconds: float
    peak_rss: int
    # Some test samples of each device, for the picture.
    embedded: Mapping[str, Embedded] = field(default_factory=dict)

    @property
    def evaluator(self) -> str:
        """Which accuracy the run is known by."""
        return primary(self.rows[-1].accuracy)


def row_of(
    round: int, tallies: Mapping[str, Tallies], up: Traffic, down: Traffic, paper_floats: int
) -> Row:
    """From every device's tallies to one row."""
    by_agent = _accuracies(tallies, "test")
    columns = _by_evaluator(by_agent)
    checks = _by_evaluator(_accuracies(tallies, "validation"))
    return Row(
        round,
        accuracy={name: fmean(column) for name, column in columns.items()},
        # Of the population: these devices are all there are, not a sample of more.
        accuracy_std={name: pstdev(column) for name, column in columns.items()},
        validation={name: fmean(column) for name, column in checks.items()},
        per_agent=by_agent,
        per_class={name: _per_class(tallies, name) for name in columns},
        up_bytes=up.bytes,
        down_bytes=down.bytes,
        up_floats=up.floats,
        down_floats=down.floats,
        paper_floats=paper_floats,
        pooled={name: _pooled(tallies, name) for name in columns},
    )


def common_of(tallies: Mapping[str, Tallies]) -> Numbers:
    """Means over devices of what each makes of the test set that is everybody's."""
    columns = _by_evaluator(_accuracies(tallies, "common"))
    return {name: fmean(column) for name, column in columns.items()}


def _by_evaluator(by_agent: Mapping[str, Numbers]) -> dict[str, list[float]]:
    """The devices' accuracies in a column for each evaluator, the evaluators in order."""
    names = sorted({name for numbers in by_agent.values() for name in numbers})
    return {
        name: [numbers[name] for numbers in by_agent.values() if name in numbers] for name in names
    }


def _accuracies(tallies: Mapping[str, Tallies], split: str) -> dict[str, dict[str, float]]:
    by_agent: dict[str, dict[str, float]] = {}
    for agent in sorted(tallies):
        numbers = {name: tally.accuracy for name, tally in tallies[agent].get(split, {}).items()}
        by_agent[agent] = {name: number for name, number in numbers.items() if number is not None}
    return by_agent


def _tested(tallies: Mapping[str, Tallies], name: str) -> list[Tally]:
    return [tally["test"][name] for tally in tallies.values() if name in tally.get("test", {})]


def _pooled(tallies: Mapping[str, Tallies], name: str) -> float:
    """Σ correct / Σ samples over the devices, as PFLlib's codes have it."""
    tested = _tested(tallies, name)
    return float(sum(t.correct.sum() for t in tested) / sum(t.total.sum() for t in tested))


def _per_class(tallies: Mapping[str, Tallies], name: str) -> list[float | None]:
    tested = _tested(tallies, name)
    # Samples of all devices together: in a mean over devices one with three samples of a class
    # would weigh as much as one with three hundred.
    correct = np.sum([t.correct for t in tested], axis=0)
    total = np.sum([t.total for t in tested], axis=0)
    return [float(c / t) if t else None for c, t in zip(correct, total, strict=True)]


def _best(rows: Sequence[Row], name: str, of: str = "accuracy") -> Row | None:
    measured = [row for row in rows if name in getattr(row, of)]
    return max(measured, key=lambda row: getattr(row, of)[name]) if measured else None


def document(outcome: Outcome) -> dict[str, Any]:
    """The result as plain data (schema 1)."""
    setup, rows = outcome.setup, outcome.rows
    name, last = outcome.evaluator, rows[-1]
    best = _best(rows, name) or last
    selected = _best(rows, name, "validation")
    verdict = learned.verdict(outcome.state.shared)
    return {
        "schema": SCHEMA,
        "config": resolved(setup),
        "rounds": [_plain_row(row) for row in rows],
        "best": {
            "round": best.round,
            "accuracy": best.accuracy.get(name),
            "evaluator": name,
            "each": {
                evaluator: {"round": row.round, "accuracy": row.accuracy[evaluator]}
                for evaluator in last.accuracy
                if (row := _best(rows, evaluator)) is not None
            },
            # A round of its own: the best mean over devices is another round's.
            "pooled": {
                evaluator: {"round": row.round, "accuracy": row.pooled[evaluator]}
                for evaluator in last.accuracy
                if (row := _best(rows, evaluator, "pooled")) is not None
            },
        },
        "final": {
            "round": last.round,
            "accuracy": last.accuracy.get(name),
            "evaluator": name,
            "each": dict(last.accuracy),
            "pooled": dict(last.pooled),
            "common": dict(last.common),
            "per_agent": {agent: dict(numbers) for agent, numbers in last.per_agent.items()},
            "per_class": {
                evaluator: dict(zip(setup.data.classes, row, strict=True))
                for evaluator, row in last.per_class.items()
            },
        },
        "selected_by_validation": None
        if selected is None
        else {
            "round": selected.round,
            "accuracy": selected.accuracy.get(name),
            "validation": selected.validation[name],
        },
        "privacy": None if setup.private is None else privacy(setup.private, last.epsilon),
        "partition": setup.partition.to_plain(setup.data.y, setup.data.classes),
        "verdict": None if verdict is None else verdict.sentence,
        "state_sha256": outcome.state.sha256,
        "seconds": outcome.seconds,
        "peak_rss_bytes": outcome.peak_rss,
    }


def curve(result: Mapping[str, Any]) -> list[tuple[int, float]]:
    """Round and accuracy, by the evaluator that a document's run is known by."""
    name = result["best"]["evaluator"]
    return [
        (row["round"], row["accuracy"][name]) for row in result["rounds"] if name in row["accuracy"]
    ]


def alike(result: Mapping[str, Any]) -> float | None:
    """The last round's accuracy on one test set for all devices, by that evaluator."""
    last = result["final"]
    everyone = result["config"].get("test_on") == "everyone"
    common: Numbers = last["each"] if everyone else last.get("common", {})
    name = result["best"]["evaluator"]
    return common.get(f"{name}_all_classes", common.get(name))


def privacy(private: Private, spent: float) -> dict[str, Any]:
    """What was promised of whom, and what of it is spent."""
    account = private.accountant
    return {
        "unit": private.unit,
        "epsilon": account.budget.epsilon,
        "delta": account.budget.delta,
        "publications": account.publications,
        "rho": account.rho,
        "spent": spent,
    }


def resolved(setup: Setup) -> dict[str, Any]:
    """Everything that decides the outcome, with what it was resolved to."""
    config = setup.config
    return {
        **to_plain(config.run),
        "partition": setup.partition.kind,
        "partition_options": to_plain(config.partition),
        "settings": to_plain(setup.hyper),
        "admission": to_plain(config.admission),
        "masks": to_plain(config.masks),
        "budget": to_plain(config.budget),
        "contract": to_plain(setup.contract),
        "backbones": dict(setup.backbones),
        "versions": versions(),
        "machine": f"{sys.platform} {platform.machine()}",
    }


def versions() -> dict[str, str]:
    """Of what computes: under others a run may end in other bits."""
    return {
        "python": platform.python_version(),
        **{name: _version(name) for name in ("protofleet", "numpy", "torch")},
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


def _plain_row(row: Row) -> dict[str, Any]:
    plain: dict[str, Any] = to_plain(row)
    # In every round they would make a document of megabytes; the last round's are under `final`.
    for long in ("per_agent", "per_class", "common"):
        del plain[long]
    return plain


def table(rows: Sequence[Row]) -> str:
    """The rounds as CSV."""
    names = sorted({name for row in rows for name in row.accuracy})
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    counted = ["up_bytes", "down_bytes", "up_floats", "down_floats", "paper_floats", "seconds"]
    heads = (
        [f"accuracy_{n}" for n in names]
        + [f"accuracy_std_{n}" for n in names]
        + [f"validation_{n}" for n in names]
    )
    pooled = [f"pooled_{n}" for n in names]  # last, so that older readers find their columns
    writer.writerow(["round", *heads, *counted, *pooled])
    for row in rows:
        numbers = [
            source.get(n, "")
            for source in (row.accuracy, row.accuracy_std, row.validation)
            for n in names
        ]
        own = [row.pooled.get(n, "") for n in names]
        writer.writerow([row.round, *numbers, *(getattr(row, c) for c in counted), *own])
    return text.getvalue()
