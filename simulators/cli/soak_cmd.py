"""`protofleet soak`: a live fleet under fire, for as long as it takes."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from simulators.faults.soak import AttemptResult


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--case", "cases", multiple=True, help="Only this case; may be given again.")
@click.option(
    "--broker",
    "brokers",
    multiple=True,
    type=click.Choice(["mosquitto", "embedded"]),
    help="Only this one.",
)
@click.option(
    "--seed", "seeds", multiple=True, type=int, help="This seed instead of many: repeats a failure."
)
@click.option(
    "--share",
    default=1.0,
    show_default=True,
    help="Of the seeds of every case; at least one is tried.",
)
@click.option(
    "--journal",
    type=click.Choice(["sqlite", "postgresql"]),
    default="sqlite",
    show_default=True,
    help="Where coordinators keep it; a server of PostgreSQL is started for that, in a folder.",
)
@click.option("--adversary", is_flag=True, help="Only the cases in which somebody means it.")
@click.option("--list", "only_list", is_flag=True, help="Name the cases and what each does.")
def soak(
    cases: tuple[str, ...],
    brokers: tuple[str, ...],
    seeds: tuple[int, ...],
    share: float,
    journal: str,
    adversary: bool,
    only_list: bool,
) -> None:
    """Kill, cut, fill, flood and starve a small live fleet, and hold what comes out to the
    laboratory's own run.

    \b
    protofleet soak
    protofleet soak --case 'coordinator killed' --seed 17
    protofleet soak --adversary
    protofleet soak --journal postgresql --share 0.05
    """
    from protofleet.errors import UsageError
    from simulators.databases.server import running_server
    from simulators.faults import soak as long_form
    from simulators.faults.cases import by_name

    catalogue = {n: case for n, case in by_name().items() if case.adversary or not adversary}
    for name in cases:
        if name not in catalogue:
            raise UsageError(f"no case {name!r}", "--list names them")
    if only_list:
        width = max(map(len, catalogue))
        for name, case in catalogue.items():
            click.echo(f"{name:<{width}}  {(case.play.__doc__ or '').strip().splitlines()[0]}")
        return

    def report(result: AttemptResult) -> None:
        outcome = f"FAILED {result.failure[:200]}" if result.failure else result.words
        tried = f"{result.case} ({result.broker}, seed {result.seed})"
        click.echo(f"{result.seconds:6.1f} s  {tried}: {outcome}", err=True)

    chosen = [case for name, case in catalogue.items() if not cases or name in cases]
    with running_server() if journal == "postgresql" else nullcontext() as server:
        results = long_form.run(chosen, brokers, seeds, share, report, server)
    click.echo(long_form.table(results))
    sys.exit(1 if any(result.failure for result in results) else 0)
