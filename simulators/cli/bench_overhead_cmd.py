"""`protofleet bench overhead`: a round over MQTT without its training."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from simulators.cli.common import json_option


@click.command()
@click.option(
    "--rounds", default=40, show_default=True, help="Rounds; the first five are not counted."
)
@click.option("--devices", default=5, show_default=True, help="Device daemons.")
@click.option(
    "--signed", is_flag=True, help="The same fleet by invitation beside it, whose words are signed."
)
@click.option(
    "--runs", default=3, show_default=True, help="With --signed: runs of each, in turn; medians."
)
@json_option
def overhead(rounds: int, devices: int, signed: bool, runs: int, as_json: bool) -> None:
    """A round over MQTT with next to no training: its time, what idle devices hold, and bytes on
    the loopback.

    Other traffic on the interface counts as well.
    """
    from tempfile import TemporaryDirectory

    from simulators.speed.overhead import bench_overhead

    if signed:
        _beside(rounds, devices, runs, as_json=as_json)
        return
    with TemporaryDirectory(prefix="protofleet-") as folder:
        measured = bench_overhead(rounds, devices, Path(folder))
    if as_json:
        click.echo(json.dumps(asdict(measured) | {"overhead_ms": measured.overhead_ms}, indent=1))
        return
    loopback = (
        "not known" if measured.loopback_bytes is None else f"{measured.loopback_bytes:,.0f} B"
    )
    lines = {
        "from one round to the next": f"{measured.round_ms:.0f} ms",
        "of it the slowest device's training process": f"{measured.training_ms:.0f} ms",
        "overhead": f"{measured.overhead_ms:.0f} ms",
        "a device daemon, its training process beside it": f"{measured.daemon_mb:.0f} MB",
        "the training process": f"{measured.training_process_mb:.0f} MB",
        "a device daemon alone": f"{measured.idle_mb:.0f} MB",
        "on the loopback interface in a round": loopback,
        "payloads, as often as they cross it": f"{measured.carried_bytes:,.0f} B",
        "payloads, sent or received by a device": f"{measured.payload_bytes:,.0f} B",
    }
    click.echo(
        f"{measured.devices} devices, {measured.rounds} rounds, the first five not counted; medians"
    )
    for name, value in lines.items():
        click.echo(f"{name:<50}{value:>14}")


def _beside(rounds: int, devices: int, runs: int, *, as_json: bool) -> None:
    """Both, and what signatures add."""
    from statistics import median
    from tempfile import TemporaryDirectory

    from simulators.speed.overhead import bench_beside

    with TemporaryDirectory(prefix="protofleet-") as folder:
        both = bench_beside(
            rounds, devices, runs, Path(folder), lambda words: click.echo(words, err=True)
        )
    if as_json:
        document = {
            name: [asdict(row) | {"overhead_ms": row.overhead_ms} for row in rows]
            for name, rows in both.items()
        }
        click.echo(json.dumps(document, indent=1))
        return
    click.echo(f"{devices} devices, {rounds} rounds, the first five not counted; {runs} runs each")
    click.echo(f"{'medians':<50}{'plain':>9}{'signed':>9}{'more':>9}")
    for what, name in (
        ("overhead of a round, ms", "overhead_ms"),
        ("a device daemon, its training process beside it, MB", "daemon_mb"),
        ("a device daemon alone, MB", "idle_mb"),
    ):
        plain, under = (median(getattr(row, name) for row in rows) for rows in both.values())
        click.echo(f"{what:<50}{plain:>9.1f}{under:>9.1f}{under - plain:>+9.1f}")
