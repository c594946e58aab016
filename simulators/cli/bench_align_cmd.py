"""`protofleet bench align`: the server's matrix products beside the formulas as written."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from simulators.cli.common import json_option


@click.command()
@click.option(
    "--repeats", default=3, show_default=True, help="Interleaved blocks; the fastest counts."
)
@json_option
def align(repeats: int, as_json: bool) -> None:
    """Matrix products on the server beside the formulas as written: ProtoNorm's alignment, FedPAC's
    D.
    """
    from simulators.speed.align import bench_align

    rows = bench_align(repeats)
    if as_json:
        click.echo(json.dumps([asdict(row) | {"ratio": row.ratio} for row in rows], indent=1))
        return
    click.echo("One thread, float64; milliseconds a step (D: for all devices)")
    click.echo(f"{'':<36}{'as written':>12}{'ours':>10}{'times as fast':>15}{'difference':>12}")
    for row in rows:
        times = f"{row.written_ms:>12,.2f}{row.ours_ms:>10,.3f}{row.ratio:>15,.1f}"
        click.echo(f"{row.what:<36}{times}{row.difference:>12.1e}  {row.note}".rstrip())
