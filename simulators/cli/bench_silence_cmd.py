"""`protofleet bench silence`: what it costs that devices say less than they could."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean
from typing import TYPE_CHECKING

import click

from simulators.cli.common import json_option, progress, workers_option

if TYPE_CHECKING:
    from simulators.attacks.silence import SilentRun


@click.command()
@click.option("--task", "tasks", multiple=True, help="One of the five of bench cross; or all.")
@click.option("--seeds", default=3, show_default=True, help="Seeds 0, 1, … of every run.")
@click.option("--rounds", default=2, show_default=True, help="1: nothing is counted.")
@workers_option
@json_option
def silence(tasks: tuple[str, ...], seeds: int, rounds: int, workers: int, as_json: bool) -> None:
    """What `fleet` loses on the tasks of `bench cross` as devices say nothing of a class of few
    samples, nothing again for few new ones, and nothing of how samples spread.

    \b
    protofleet bench silence --task mnist --seeds 1
    """
    from protofleet.errors import UsageError
    from simulators.attacks.silence import measure
    from simulators.cross.cross import TASKS

    names = [task.name for task in TASKS]
    for name in tasks:
        if name not in names:
            raise UsageError(f"no task {name!r}", f"there are {', '.join(names)}")
    runs = measure(
        tasks,
        seeds,
        rounds,
        workers,
        lambda run: progress(f"{run.task} {run.seed} {run.way}"),
    )
    click.echo("", err=True)
    if as_json:
        click.echo(json.dumps([asdict(run) for run in runs], indent=1))
        return
    for line in table(runs):
        click.echo(line)


def table(runs: Sequence[SilentRun]) -> list[str]:
    """A row a task: accuracy with everything said, the points that each silence takes away, and the
    share of samples that are spoken of.
    """
    from simulators.attacks.silence import EVERYTHING, WAYS

    silences = [way for way in WAYS if way != EVERYTHING]
    head = "".join(f" {way} | spoken of |" for way in silences)
    lines = [f"| task | {EVERYTHING} |{head} seeds |", "|---" * (3 + 2 * len(silences)) + "|"]
    for task in dict.fromkeys(run.task for run in runs):
        by_way = {way: _by_seed(runs, task, way) for way in WAYS}
        whole = by_way[EVERYTHING]
        cells = []
        for way in silences:
            gaps = [
                100 * (run.accuracy - whole[seed].accuracy) for seed, run in by_way[way].items()
            ]
            worst = f" ({min(gaps):+.2f} at worst)" if len(gaps) > 1 else ""
            cells.append(f"{fmean(gaps):+.2f}{worst}")
            cells.append(f"{100 * fmean(run.spoken for run in by_way[way].values()):.1f} %")
        mean = f"{100 * fmean(run.accuracy for run in whole.values()):.2f}"
        lines.append(f"| {task} | {mean} | " + " | ".join(cells) + f" | {len(whole)} |")
    return lines


def _by_seed(runs: Sequence[SilentRun], task: str, way: str) -> dict[int, SilentRun]:
    return {run.seed: run for run in runs if (run.task, run.way) == (task, way)}
