"""`protofleet bench truth`: the laboratory and a live fleet end in the same state."""

from __future__ import annotations

import click

from protofleet.errors import FleetError


@click.command()
@click.option("--agents", default=8, show_default=True, help="Devices.")
@click.option("--rounds", default=5, show_default=True, help="Rounds.")
@click.option("--only", multiple=True, help="A method; all by default.")
@click.option("--secure-sum", is_flag=True, help="With masked sums, of methods that can have them.")
@click.option("--dropouts", default=1, show_default=True, help="Devices that a group may lose.")
def truth(agents: int, rounds: int, only: tuple[str, ...], secure_sum: bool, dropouts: int) -> None:
    """Every method in the lab and on a live fleet of processes over a real broker: the same state,
    to the bit.

    A method that has no rounds on a live fleet (fleet) is held to the laboratory's sums of what its
    devices see through the fleet's own extractor.

    \b
    protofleet bench truth --only fedproto --secure-sum
    """
    from protofleet import registry
    from protofleet.recipe import no_rooms
    from simulators.live.truth import compare_engines
    from simulators.run.config import MaskOptions

    masks = MaskOptions(secure_sum, dropouts if secure_sum else 0)
    names = only or registry.names()
    if secure_sum and not only:
        names = [name for name in names if registry.load(name).rooms is not no_rooms]
    differing = 0
    for name in names:
        compared = compare_engines(name, agents, rounds, masks=masks)
        differing += not compared.same
        verdict = "same" if compared.same else "DIFFERS"
        took = f"lab {compared.lab_seconds:.1f} s, fleet {compared.fleet_seconds:.1f} s"
        hashes = [compared.lab, *filter(None, [compared.masked]), *[compared.fleet] * secure_sum]
        shown = " ".join(digest[:16] for digest in hashes)
        click.echo(f"{name:<12} {verdict:<8} {shown}  {took}")
    if differing:
        raise FleetError(f"{differing} methods end in another state on a live fleet")
