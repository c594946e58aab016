"""`protofleet bench codec`: the wire format beside others."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from simulators.cli.common import json_option


@click.command()
@click.option(
    "--repeats", default=200, show_default=True, help="Interleaved blocks; the fastest counts."
)
@json_option
def codec(repeats: int, as_json: bool) -> None:
    """The wire format beside protobuf, msgpack and JSON, on a 10-class × 512 half-precision
    upload.
    """
    from simulators.speed.codec import bench_codec

    rows = bench_codec(repeats)
    if as_json:
        click.echo(json.dumps([asdict(row) for row in rows], indent=1))
        return
    click.echo("A 10-class × 512 half-precision upload with its envelope: 10,240 bytes of numbers")
    click.echo(f"{'':<14}{'bytes':>8}{'over raw':>10}{'encode µs':>11}{'decode µs':>11}")
    for row in rows:
        times = f"{row.encode_us:>11.1f}{row.decode_us:>11.1f}"
        click.echo(f"{row.name:<14}{row.bytes:>8,}{row.over_raw:>10,}{times}")
