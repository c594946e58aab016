"""`protofleet bench rogues`: devices that lie within what is let in, and how the others fare."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Literal

import click

from simulators.cli.common import json_option, workers_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simulators.rogues.trials import RogueTrial


DEFENCES = {
    "fedproto": ("buckets=256", "minimum=5", "guard=yes"),
    "fleet": ("buckets=1024",),
}


@click.command()
@click.option("--method", default="fedproto", show_default=True, help="The method attacked.")
@click.option("--dataset", default="mnist", show_default=True, help="As for `simulate`.")
@click.option("--limit", default=6000, show_default=True, help="Samples of the set that are used.")
@click.option("--alpha", default=0.1, show_default=True, help="Of the Dirichlet partition.")
@click.option("--rounds", default=15, show_default=True, help="Rounds.")
@click.option("--agents", multiple=True, type=int, default=(5, 10), help="Devices: 5 and 10.")
@click.option("--seed", "seeds", multiple=True, type=int, default=(0, 1, 2), help="0, 1 and 2.")
@click.option("--attack", "attacks", multiple=True, help="Only this one; may be given again.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="In every run.")
@click.option(
    "--defence",
    multiple=True,
    metavar="NAME=VALUE",
    help="Settings of the method where it is defended; by default all that it has.",
)
@click.option(
    "--test-on",
    type=click.Choice(["own", "everyone"]),
    default="own",
    show_default=True,
    help="Each device's own test samples, or everyone's.",
)
@click.option(
    "--margin", default=2.0, show_default=True, help="Times what most honest uploads stay below."
)
@click.option(
    "--common-start/--own-start",
    default=True,
    show_default=True,
    help="Whether all devices begin from the same weights.",
)
@click.option("--only-defended", is_flag=True, help="No attack without a defence.")
@workers_option
@json_option
def rogues(
    method: str,
    dataset: str,
    limit: int,
    alpha: float,
    rounds: int,
    agents: tuple[int, ...],
    seeds: tuple[int, ...],
    attacks: tuple[str, ...],
    settings: tuple[str, ...],
    defence: tuple[str, ...],
    test_on: Literal["own", "everyone"],
    margin: float,
    common_start: bool,
    only_defended: bool,
    workers: int,
    as_json: bool,
) -> None:
    """One device of several that lies, or two that collude: the others' accuracy, defended by
    limits measured on an honest run and by the method's own settings, beside none.
    """
    from protofleet.errors import UsageError
    from simulators.rogues.attacks import ATTACKS, CREWS
    from simulators.rogues.trials import RoguePlan, run
    from simulators.run.config import LabConfig, Run
    from simulators.run.partitions import PartitionOptions

    every = (*ATTACKS, *CREWS)
    for name in attacks:
        if name not in every:
            raise UsageError(f"no attack {name!r}", f"there are {', '.join(every)}")
    config = LabConfig(
        Run(
            method=method,
            dataset=dataset,
            rounds=rounds,
            test_on=test_on,
            common_start="yes" if common_start else "no",
        ),
        PartitionOptions(alpha=alpha, limit=limit),
        settings=settings,
    )
    plan = RoguePlan(
        config,
        defence or DEFENCES.get(method, ()),
        agents,
        seeds,
        attacks or every,
        margin,
        not only_defended,
        workers,
    )
    trials = run(plan, lambda trial: click.echo(_line(trial), err=True))
    if as_json:
        click.echo(json.dumps([asdict(trial) for trial in trials], indent=1))
        return
    for line in table(trials):
        click.echo(line)


def table(trials: Sequence[RogueTrial]) -> list[str]:
    """Of each attack and size of fleet the means over the seeds, and the lowest share of honest."""
    from statistics import fmean

    head = f"{'devices':>7}  {'attack':<11} {'honest':>7} {'attacked':>9} {'defended':>9}"
    rows = [f"{head} {'of honest':>10} {'worst':>7} {'admitted':>9}  any order"]
    for agents, attack in dict.fromkeys((t.agents, t.attack) for t in trials):
        some = [t for t in trials if (t.agents, t.attack) == (agents, attack)]
        plain, defended = ([t for t in some if t.defended is way] for way in (False, True))
        shares = [t.accuracy / t.honest for t in defended]
        rows.append(
            f"{agents:>7}  {attack:<11} {100 * fmean(t.honest for t in some):>7.1f}"
            f" {_mean(plain):>9} {_mean(defended):>9} {100 * fmean(shares):>8.1f} %"
            f" {100 * min(shares):>5.1f} % {sum(t.admitted for t in some):>4}"
            f"/{sum(t.tried for t in some)}"
            f"  {'one hash' if all(t.in_any_order for t in some) else 'MORE HASHES'}"
        )
    return rows


def _mean(trials: Sequence[RogueTrial]) -> str:
    accuracies = [trial.accuracy for trial in trials]
    return f"{100 * sum(accuracies) / len(accuracies):.1f}" if accuracies else "-"


def _line(trial: RogueTrial) -> str:
    way = "defended" if trial.defended else "plain"
    accuracy = f"{100 * trial.accuracy:.1f} of {100 * trial.honest:.1f} %"
    words = f"{accuracy} {trial.failure}".strip()
    return f"{trial.agents} devices, seed {trial.seed}, {trial.attack}, {way}: {words}"
