"""`protofleet bench lab`: a round of ours beside reference loops."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from simulators.cli.common import json_option, progress

if TYPE_CHECKING:
    from simulators.speed.lab import Timed


@click.command()
@click.option("--rounds", default=12, show_default=True, help="Rounds a contender.")
@click.option(
    "--only",
    type=click.Choice(["cifar", "fedmps", "fashion", "workers"]),
    help="One of the four tables.",
)
@json_option
def lab(rounds: int, only: str | None, as_json: bool) -> None:
    """A round of ours beside reference loops (needs CIFAR-10 and Fashion-MNIST in
    PROTOFLEET_DATA).
    """
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
