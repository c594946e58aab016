"""`protofleet compare`: several methods on the same partition, in one table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from protofleet.errors import UsageError
from simulators.cli.common import (
    config_of,
    engine_options,
    json_option,
    run_options,
    seeds_option,
    show,
)

if TYPE_CHECKING:
    from simulators.cluster.engine import Name


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--methods", required=True, help="Their names, separated by commas.")
@run_options(leave_out=("method",))
@engine_options()
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="A folder per method, and the table's picture.",
)
@click.option(
    "--resume", is_flag=True, help="Continue in --out: finished methods are read, others go on."
)
@seeds_option
@click.option("--baseline", default="", help="With --seeds: who the others are held against.")
@json_option
def compare(
    methods: str,
    workers: int | None,
    engine_name: Name,
    address: str,
    out: Path | None,
    resume: bool,
    seeds: int,
    baseline: str,
    as_json: bool,
    **values: Any,
) -> None:
    """Run several methods on the same partition.

    \b
    protofleet compare --methods local,fedavg,fedproto --rounds 20
    protofleet compare --methods fedavg,fedproto --dataset cifar10 --alpha 0.1 --out runs/compare
    protofleet compare --methods fedavg,fedproto --seeds 5 --baseline fedavg --out runs/paper

    A setting given with --set goes to the methods that have it. With several seeds --out also has
    summary.csv and summary.tex, and the curves have bands.
    """
    from simulators.cluster.engine import engine
    from simulators.run.comparison import CompareOptions, compared, planned

    names = [name.strip() for name in methods.split(",") if name.strip()]
    if not names:
        raise UsageError("--methods names no method")
    config = config_of(values)
    plans = {name: planned(replace(config, run=replace(config.run, method=name))) for name in names}
    with engine(engine_name, workers, address) as where:
        comparison = compared(plans, CompareOptions(where, seeds, baseline, out, resume))
    show(comparison, out, as_json=as_json)
