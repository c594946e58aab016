"""`protofleet bench masks`: what a sum that nobody can read costs."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from simulators.cli.common import json_option


@click.command()
@click.option("--devices", default=100, show_default=True, help="Of the group.")
@click.option("--width", default=504, show_default=True, help="Of a mean; the covariance goes too.")
@click.option("--dropouts", default=5, show_default=True, help="Lost after they shared secrets.")
@click.option("--samples", default=2**15, show_default=True, help="Most of a device.")
@click.option("--norm", default=16.0, show_default=True, help="Largest length of a prototype.")
@json_option
def masks(
    devices: int, width: int, dropouts: int, samples: int, norm: float, as_json: bool
) -> None:
    """Bytes and processor time of a masked sum of contributions, beside the same numbers in half
    precision.
    """
    from simulators.speed.masking import measured

    costs = measured(devices, width, dropouts, samples, norm)
    if as_json:
        click.echo(json.dumps(asdict(costs), indent=1))
        return
    click.echo(f"{devices} devices, {costs.neighbours} neighbours each, {dropouts} lost")
    click.echo(f"a device sends {costs.octets:,} bytes, {costs.ratio:.2f} × half precision")
    click.echo(f"a device computes {costs.cpu:.3f} s ({costs.cpu_most:.3f} s at most)")
    click.echo(f"the coordinator computes {costs.coordinator_cpu:.2f} s")
    click.echo(f"the total is {'the plain one, to the bit' if costs.equal else 'ANOTHER'}")
