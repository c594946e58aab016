"""`protofleet compare`: several methods on the same partition, in one table."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from protofleet.errors import UsageError
from simulators.cli.common import config_of, json_option, run_options, workers_option


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--methods", required=True, help="Their names, separated by commas.")
@run_options(leave_out=("method",))
@workers_option
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="A folder per method, and the table's picture.",
)
@click.option(
    "--resume", is_flag=True, help="Continue in --out: finished methods are read, others go on."
)
@json_option
def compare(
    methods: str, workers: int, out: Path | None, resume: bool, as_json: bool, **values: Any
) -> None:
    """Run several methods on the same partition.

    \b
    protofleet compare --methods local,fedavg,fedproto --rounds 20
    protofleet compare --methods fedavg,fedproto --dataset cifar10 --alpha 0.1 --out runs/compare

    A setting given with --set goes to the methods that have it.
    """
    from simulators.run.comparison import Comparison, compared, render

    names = [name.strip() for name in methods.split(",") if name.strip()]
    if not names:
        raise UsageError("--methods names no method")
    config = config_of(values)
    configs = {name: replace(config, run=replace(config.run, method=name)) for name in names}
    comparison: Comparison = compared(configs, workers, out, resume=resume)
    if as_json:
        click.echo(json.dumps(comparison.documents, indent=1))
    else:
        click.echo(render(comparison))
