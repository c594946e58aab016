"""`protofleet bench bytes`: accuracy against what crossed."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from simulators.cli.common import fail_for, run_each, workers_option


@click.command(name="bytes")
@click.option("--only", multiple=True, help="A method by name; all by default.")
@click.option(
    "--out",
    default="runs/bytes",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Where runs are kept.",
)
@click.option(
    "--picture", type=click.Path(path_type=Path, dir_okay=False), help="Draw the curves here."
)
@workers_option
def against_bytes(only: tuple[str, ...], out: Path, picture: Path | None, workers: int) -> None:
    """Accuracy against bytes for every method (needs Fashion-MNIST and CIFAR-10 in
    PROTOFLEET_DATA); resumable.

    \b
    protofleet bench bytes --picture docs/images/bytes.png
    """
    from protofleet import registry
    from simulators.papers import traffic

    for name in only:
        registry.load(name)
    methods = only or registry.names()
    pairs = [(task, method) for task in traffic.TASKS for method in methods]
    runs = {
        f"{task.name} {method}": partial(task.run, method, out, workers) for task, method in pairs
    }
    failed = run_each(runs)
    for task in traffic.TASKS:
        click.echo(traffic.render(task, traffic.curves(task, out)) + "\n")
    if picture is not None:
        traffic.draw(out, picture)
        click.echo(f"drawn: {picture}")
    fail_for(failed)
