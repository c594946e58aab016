"""`protofleet bench memory`: what the coordinator holds."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from simulators.cli.common import json_option


@click.command()
@click.option("--devices", default=2000, show_default=True, help="Devices that register.")
@click.option("--uploads", default=3000, show_default=True, help="Uploads of 20 KB that pour in.")
@click.option("--rounds", default=1000, show_default=True, help="Rounds of 50 small devices.")
@json_option
def memory(devices: int, uploads: int, rounds: int, as_json: bool) -> None:
    """What the coordinator holds for each device and each upload, and whether it grows with
    rounds.
    """
    from tempfile import TemporaryDirectory

    from simulators.speed.memory import bench_memory

    with TemporaryDirectory(prefix="protofleet-") as folder:
        rows = bench_memory(
            devices, uploads, rounds, 50, Path(folder), lambda words: click.echo(words, err=True)
        )
    if as_json:
        click.echo(json.dumps([asdict(row) for row in rows], indent=1))
        return
    click.echo(f"{'the coordinator':<40}{'RSS MB':>8}")
    for row in rows:
        click.echo(f"{row.when:<40}{row.rss_mb:>8.1f}  {row.note}".rstrip())
