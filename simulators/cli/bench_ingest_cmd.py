"""`protofleet bench ingest`: a bare subscriber and the coordinator on the same uploads."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from protofleet.errors import UsageError
from simulators.cli.common import json_option

if TYPE_CHECKING:
    from simulators.speed.ingest import Ingested

UPLOAD = 20_480  # bytes


@click.command()
@click.option("--uploads", default=5000, show_default=True, help="Uploads of 20 KB a run.")
@click.option(
    "--runs",
    default=5,
    show_default=True,
    help="Runs of each receiver, in turn; medians are shown.",
)
@click.option(
    "--signed",
    is_flag=True,
    help="Beside them, in turn, a coordinator of a fleet by invitation, whose uploads are signed.",
)
@click.option(
    "--ingest",
    "counts",
    default="1",
    show_default=True,
    help="Processes that take uploads in, each number in turn, as 1,2.",
)
@json_option
def ingest(uploads: int, runs: int, signed: bool, counts: str, as_json: bool) -> None:
    """Uploads through mosquitto: a bare subscriber that drops them, and the coordinator that keeps
    them.
    """
    from tempfile import TemporaryDirectory

    from simulators.speed.ingest import bench_ingest, middle
    from simulators.speed.signing import opened_us

    with TemporaryDirectory(prefix="protofleet-") as folder:
        measured = bench_ingest(
            uploads,
            runs,
            Path(folder),
            lambda words: click.echo(words, err=True),
            signed=signed,
            counts=_numbers(counts),
        )
        opened = opened_us(UPLOAD, Path(folder)) if signed else 0.0
    if as_json:
        click.echo(json.dumps([asdict(row) for row in measured], indent=1))
        return
    click.echo(
        f"{uploads:,} uploads of 20 KB, QoS 1, 20 publishers, mosquitto on loopback; "
        f"medians of {runs} runs"
    )
    click.echo(
        f"{'':<22}{'uploads/s':>11}{'CPU µs each':>13}"
        f"{'lost':>6}{'RSS MB':>8}{'p50 ms':>9}{'p99 ms':>9}"
    )
    rows = middle(measured)
    for row in rows:
        waits = "" if row.p50_ms is None else f"{row.p50_ms:>9.1f}{row.p99_ms:>9.1f}"
        click.echo(
            f"{row.name:<22}{row.per_second:>11,.0f}{row.cpu_us:>13.0f}"
            f"{row.lost:>6}{row.rss_mb:>8.0f}{waits}"
        )
    for row in rows:
        rates = [run.per_second for run in measured if run.name == row.name]
        click.echo(
            f"{row.name}: {min(rates):,.0f} to {max(rates):,.0f} uploads/s; "
            f"of each, µs: broker {row.broker_us:.0f}, publishers {row.publishers_us:.0f}"
        )
    for row in rows[1:]:
        if row.own_us is not None:
            _spread(row, rows[1])
    ratio = rows[1].per_second / rows[0].per_second
    click.echo(f"ratio {ratio:.2f}; ms: from publishing to the coordinator's receipt")
    if signed:
        plain, under = rows[1], rows[-1]
        click.echo(
            f"signed: {under.per_second / plain.per_second:.2f} of the plain rate, "
            f"{under.cpu_us - plain.cpu_us:+.0f} µs CPU each, receipts and all; "
            f"an upload of 20 KB verified in {opened:.0f} µs at best"
        )


def _numbers(text: str) -> list[int]:
    """How many processes, each time."""
    try:
        numbers = [int(word) for word in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise UsageError(f"--ingest {text}: numbers from 1 up are due", "--ingest 1,2")
    return numbers


def _spread(row: Ingested, one: Ingested) -> None:
    """What several processes cost beside one, and what that would come to with a processor each."""
    assert row.own_us is not None  # it is asked of those that have others beside them
    count = int(row.name.split()[1])
    slowest = max(row.own_us, (row.cpu_us - row.own_us) / count, row.broker_us)
    click.echo(
        f"{row.name}: {row.cpu_us / one.cpu_us:.2f} of the processor time of one process,"
        f" {row.own_us:.0f} µs of it the coordinator's own; computed: with a processor each"
        f" {1e6 / slowest:,.0f} uploads/s, where one process has {1e6 / one.cpu_us:,.0f}"
    )
