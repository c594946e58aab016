"""`protofleet bench truth`: the laboratory and a live fleet end in the same state."""

from __future__ import annotations

import click

from protofleet.errors import FleetError


@click.command()
@click.option("--agents", default=8, show_default=True, help="Devices.")
@click.option("--rounds", default=5, show_default=True, help="Rounds.")
@click.option("--only", multiple=True, help="A method; all by default.")
def truth(agents: int, rounds: int, only: tuple[str, ...]) -> None:
    """Every method in the lab and on a live fleet of processes over a real broker: the same state,
    to the bit.

    A method that has no rounds on a live fleet (fleet) is held to the laboratory's sums of what its
    devices see through the fleet's own extractor.
    """
    from protofleet import registry
    from simulators.live.truth import compare_engines

    differing = 0
    for name in only or registry.names():
        compared = compare_engines(name, agents, rounds)
        differing += not compared.same
        verdict = "same" if compared.same else "DIFFERS"
        took = f"lab {compared.lab_seconds:.1f} s, fleet {compared.fleet_seconds:.1f} s"
        click.echo(f"{name:<12} {verdict:<8} {compared.lab[:16]}  {took}")
    if differing:
        raise FleetError(f"{differing} methods end in another state on a live fleet")
