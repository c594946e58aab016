"""`protofleet bench rollouts`: a good bundle and three bad ones, rolled out under fire."""

from __future__ import annotations

import json
import random
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, cast

import click

from simulators.cli.common import json_option

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simulators.rollouts.staged import StagedOutcome
    from simulators.rollouts.variants import Variant

VARIANTS = ("crashing", "slow", "worse", "good")


@click.command()
@click.option("--devices", default=40, show_default=True, help="Each with its own daemon.")
@click.option("--hosts", default=4, show_default=True, help="Processes that they live in.")
@click.option("--seed", default=0, show_default=True, help="Of who is killed when.")
@click.option("--quiet", is_flag=True, help="Nobody is killed.")
@click.option(
    "--bundle",
    "variants",
    multiple=True,
    type=click.Choice(VARIANTS),
    help="Only this one; may be given again.",
)
@json_option
def rollouts(
    devices: int, hosts: int, seed: int, quiet: bool, variants: tuple[str, ...], as_json: bool
) -> None:
    """Roll out a good bundle and three bad ones: one that ends on devices' own pictures, one that
    is slow, one that is worse where there is little light, which a camera in four has.

    Broker, coordinator, daemons and trials are real. While a rollout goes on, the coordinator and
    the processes that devices live in are killed and started again, each once.
    """
    from protofleet.mqtt.broker.run import running_broker
    from simulators.faults.testbed import Testbed
    from simulators.rollouts.staged import TERMS, roll, staged

    rng, outcomes = random.Random(seed), []
    with TemporaryDirectory(prefix="protofleet-rollouts-") as folder:
        place = Path(folder)
        with running_broker(place / "broker", prefer="mosquitto") as broker:
            testbed = Testbed(place / "fleet", str(broker.address), fleet="trial")
            with staged(testbed, devices, hosts) as (fleet, processes):
                victims = {} if quiet else processes
                for variant in cast("Iterable[Variant]", variants or VARIANTS):
                    outcomes.append(roll(fleet, variant, victims, rng, TERMS))
                    if not as_json:
                        click.echo(row(outcomes[-1]))
    if as_json:
        click.echo(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    if any(not outcome.as_it_should for outcome in outcomes):
        raise click.exceptions.Exit(1)


def row(outcome: StagedOutcome) -> str:
    """A line of the table."""
    accuracy = "" if outcome.before is None else f"{100 * outcome.before:.1f} %"
    after = "" if outcome.after is None else f" → {100 * outcome.after:.1f} %"
    words = outcome.words[:160]
    return (
        f"{outcome.variant:<9} {outcome.phase:<5} first group {outcome.first_group}, "
        f"ran it {outcome.touched} of {outcome.devices}, left on it {outcome.left_on}, "
        f"{outcome.deaths} deaths, {outcome.seconds:.0f} s  {accuracy}{after}  {words}"
    ).rstrip()
