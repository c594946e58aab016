"""`protofleet bench pages`: what the operator's page costs its fleet."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from simulators.cli.common import json_option


@click.command()
@click.option("--requests", default=10_000, show_default=True, help="That flood the page in all.")
@click.option("--devices", default=5, show_default=True, help="Devices that answer at once.")
@click.option("--port", default=18_321, show_default=True, help="Where the page listens meanwhile.")
@json_option
def pages(requests: int, devices: int, port: int, as_json: bool) -> None:
    """A round of a live coordinator alone, and beside a page that is looked at, flooded, killed.

    Blocks of forty rounds of each take turns; `more` is the median of what neighbouring blocks
    differ by, and CPU the coordinator's own.
    """
    from tempfile import TemporaryDirectory

    from simulators.speed.pages import bench_pages

    with TemporaryDirectory(prefix="protofleet-") as folder:
        rows = bench_pages(
            requests, devices, port, Path(folder), lambda words: click.echo(words, err=True)
        )
    if as_json:
        click.echo(json.dumps([asdict(row) for row in rows], indent=1))
        return
    titles = f"{'a round':>12}{'more':>12}{'its CPU':>12}{'more':>12}{'requests':>10}"
    click.echo(f"{'the page is':<12}{'rounds':>8}{titles}")
    for row in rows:
        asked = f"{row.requests:,}" if row.requests else ""
        name = "not there" if row.condition == "alone" else row.condition
        times = f"{row.round_ms:>9.1f} ms{row.more_ms:>+9.1f} ms"
        times += f"{row.cpu_ms:>9.1f} ms{row.more_cpu_ms:>+9.1f} ms"
        refused = f"  {row.refused:,} refused" if row.refused else ""
        click.echo(f"{name:<12}{row.rounds:>8}{times}{asked:>10}{refused}")
