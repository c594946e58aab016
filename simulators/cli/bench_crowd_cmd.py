"""`protofleet bench crowd`: ten thousand devices at one coordinator."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simulators.cli.common import json_option, progress

if TYPE_CHECKING:
    from simulators.throngs.throng import CrowdFigures


@click.command()
@click.option("--devices", default=10_000, show_default=True, help="Light ones, 2,500 a process.")
@click.option(
    "--share", default=1.0, show_default=True, help="Share of them that is asked in a round."
)
@click.option("--port", default=18_321, show_default=True, help="Where the page listens meanwhile.")
@json_option
def crowd(as_json: bool, **words: Any) -> None:
    """So many devices at one coordinator: their births, a round, a ledger, half of them cut off in
    the midst of a round and back; what each takes, and whether anything is lost.

    Broker, coordinator and page are real; a device is a socket that speaks by a device's rules.
    `status` is asked five times a second throughout, the page once.

    \b
    protofleet bench crowd --devices 10000
    protofleet bench crowd --devices 2000 --share 0.3
    """
    from tempfile import TemporaryDirectory

    from simulators.throngs.throng import CrowdOptions, bench_crowd

    with TemporaryDirectory(prefix="protofleet-crowd-") as folder:
        figures = bench_crowd(CrowdOptions(**words), Path(folder), progress)
    click.echo("", err=True)
    click.echo(json.dumps(asdict(figures), indent=1) if as_json else table(figures))
    if figures.lost or "differs" in figures.states.values():
        raise SystemExit(1)


def table(of: CrowdFigures) -> str:
    """In lines."""
    words = f"{of.devices:,} devices in {of.processes} processes"
    titles = f"{'devices':>9}{'seconds':>9}{'CPU µs each':>13}{'status s':>10}{'page s':>8}"
    lines = [words, f"{'':<14}{titles}"]
    lines += [
        f"{act.name:<14}{act.devices:>9,}{act.seconds:>9.1f}{act.cpu_us:>13,.0f}"
        f"{act.status_s:>10.2f}{act.page_s:>8.2f}"
        for act in of.acts
    ]
    verdicts = ", ".join(f"{name} {verdict}" for name, verdict in of.states.items())
    return "\n".join(
        [
            *lines,
            f"memory at most       coordinator {of.coordinator_mb:.0f} MB, broker "
            f"{of.broker_mb:.0f} MB, page {of.page_mb:.0f} MB",
            f"journal              {of.journal_bytes / 1e6:.1f} MB",
            f"an announcement      {of.announcement_bytes:,} bytes, {of.asked:,} asked",
            f"the page's document  {of.page_bytes:,} bytes",
            f"said again           {of.said_again:,}",
            f"states, replayed     {verdicts}",
            f"lost                 {of.lost}",
        ]
    )
