"""`protofleet bench lab`: a round of ours beside reference loops."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from protofleet.errors import UsageError
from simulators.cli.common import engine_options, json_option, progress

if TYPE_CHECKING:
    from simulators.cluster.engine import Name
    from simulators.scale.clustered import WholeRun
    from simulators.speed.lab import Timed

TABLES = ("cifar", "fedmps", "fashion", "workers")
WHOLE = ("minute", "thousand")


@click.command()
@click.option("--rounds", default=12, show_default=True, help="Rounds a contender.")
@click.option(
    "--only",
    type=click.Choice([*TABLES, *WHOLE]),
    help="One of the tables; minute and thousand are those of --engine ray.",
)
@engine_options()
@json_option
def lab(
    rounds: int,
    only: str | None,
    workers: int | None,
    engine_name: Name,
    address: str,
    as_json: bool,
) -> None:
    """A round of ours beside reference loops (needs CIFAR-10 and Fashion-MNIST in
    PROTOFLEET_DATA). With --engine ray: whole runs in one process, by one worker of a cluster and
    by all, with the states that they end in and the memory that they take (Fashion-MNIST, MNIST).
    """
    if only is not None and (only in WHOLE) != (engine_name == "ray"):
        raise UsageError(f"--only {only}: not with --engine {engine_name}")
    if engine_name == "ray":
        _whole_runs([only] if only else WHOLE, workers, address, as_json=as_json)
        return
    from simulators.speed import lab as cells

    tables = {
        "cifar": (
            "CIFAR-10 few-shot, LeNet, batch 8, one thread",
            cells.bench_cifar,
            "in-memory loop",
        ),
        "fedmps": (
            "FedMPS, CIFAR-10 few-shot, LeNet, batch 8, one thread",
            cells.bench_fedmps,
            "in-memory loop",
        ),
        "fashion": (
            "Fashion-MNIST 20 × 600, 4-layer CNN, batch 32, one thread",
            cells.bench_fashion,
            "DataLoader way",
        ),
        "workers": (
            "the same, channels-last and bf16, one worker and two",
            cells.bench_workers,
            "ours, 1 worker",
        ),
    }
    timed = {}
    for name, (title, run, base) in tables.items():
        if only in (None, name):
            rows = run(rounds, progress)
            click.echo("", err=True)
            timed[name] = [asdict(row) for row in rows]
            if not as_json:
                click.echo(f"{title}\n{_ratios(rows, base)}\n")
    if as_json:
        click.echo(json.dumps(timed, indent=1))


def _whole_runs(names: Sequence[str], workers: int | None, address: str, *, as_json: bool) -> None:
    from simulators.scale import clustered
    from simulators.scale.clustered import Contest

    tables = {
        "minute": (
            "Fashion-MNIST 20 × 600, 4-layer CNN, channels-last and bf16, 24 rounds",
            clustered.minute(),
            (Contest("lab"), Contest("ray", 1, address), Contest("ray", workers, address)),
        ),
        "thousand": (
            "MNIST, 1,000 devices × 42, LeNet, FedAvg, 3 rounds",
            clustered.thousand(),
            (Contest("lab"), Contest("ray", workers, address)),
        ),
    }
    measured = {}
    for name in names:
        title, config, contests = tables[name]
        runs = clustered.measure(config, contests, progress)
        click.echo("", err=True)
        measured[name] = [asdict(run) for run in runs]
        if not as_json:
            click.echo(f"{title}\n{_beside(runs)}\n")
    if as_json:
        click.echo(json.dumps(measured, indent=1))


def _beside(runs: Sequence[WholeRun]) -> str:
    lines = [f"{'':<28}{'seconds':>9}{'times as fast':>15}{'MB':>8}{'processes':>11}  state"]
    for run in runs:
        fast = runs[0].seconds / run.seconds
        figures = f"{run.seconds:>9.1f}{fast:>15.2f}{run.memory / 1e6:>8.0f}{run.processes:>11}"
        lines.append(f"{run.name:<28}{figures}  {run.state[:16]}")
    same = "the same state" if len({run.state for run in runs}) == 1 else "OTHER STATES"
    return "\n".join([*lines, f"{same}; MB: all processes at most, proportional sizes"])


def _ratios(rows: Sequence[Timed], base: str) -> str:
    # Beside one contender of the same run: seconds of another day or machine mean nothing here.
    reference = next(row.seconds for row in rows if row.name == base)
    lines = [f"{'':<36}{'s/round':>9}{'ratio':>8}{'times as fast':>15}{'accuracy':>10}"]
    for row in rows:
        accuracy = "" if row.accuracy is None else f"{100 * row.accuracy:.1f} %"
        ratio = row.seconds / reference
        lines.append(
            f"{row.name:<36}{row.seconds:>9.3f}{ratio:>8.2f}{1 / ratio:>15.2f}{accuracy:>10}"
        )
    return "\n".join([*lines, f"ratio: seconds over those of {base}"])
