"""`protofleet bench device`: a bundle on a device, beside its bare backbone and torch."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from simulators.cli.common import json_option, progress


@click.command()
@click.option(
    "--blocks", default=300, show_default=True, help="Interleaved blocks; the fastest counts."
)
@click.option(
    "--only", type=click.Choice(["cost", "process", "agree"]), help="One of the three tables."
)
@click.option("--samples", default=1000, show_default=True, help="Images a network for `agree`.")
@json_option
def device(blocks: int, only: str | None, samples: int, as_json: bool) -> None:
    """A bundle on a device: what prototypes, input, swap and int8 cost; the process; agreement with
    torch.
    """
    from simulators.speed import device as bundles
    from simulators.speed import device_process as process

    rows: dict[str, list[dict[str, object]]] = {}
    if only in (None, "cost"):
        rows["cost"] = [
            asdict(row) | {"ratio": row.ratio} for row in bundles.costs(blocks, progress)
        ]
    if only in (None, "process"):
        rows["process"] = [asdict(row) for row in process.processes(12, progress)]
    if only in (None, "agree"):
        rows["agree"] = [
            asdict(row) for row in bundles.agree(tuple(bundles.NETS), samples, progress)
        ]
    click.echo("", err=True)
    click.echo(json.dumps(rows, indent=1) if as_json else "\n".join(process.tables(rows)))
