"""`protofleet bench cross`: `fleet` against the papers' methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from protofleet.errors import UsageError
from simulators.cli.common import fail_for, run_each, workers_option

if TYPE_CHECKING:
    from simulators.papers.cell import Places

RECORDS = Path("docs/results/cross")


@click.command()
@click.option(
    "--task",
    "tasks",
    multiple=True,
    help="A task by name, or several as in paper-*; or late or rare; all by default.",
)
@click.option("--only", multiple=True, help="A contender by name; all by default.")
@click.option("--seeds", default=5, show_default=True, help="Seeds 0, 1, … of every run.")
@click.option(
    "--list", "listing", is_flag=True, help="Run nothing; what there is to run, in order."
)
@click.option("--page-only", is_flag=True, help="Run nothing; the tables of what is there.")
@click.option(
    "--out",
    default="runs/cross",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Where runs are kept.",
)
@click.option(
    "--records",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Where a small file of every finished seed is kept; docs/results/cross where docs/results "
    "is there.",
)
@click.option(
    "--write",
    "target",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Put the tables into this page, between the marks of the tasks that were chosen.",
)
@workers_option
def cross(
    tasks: tuple[str, ...],
    only: tuple[str, ...],
    seeds: int,
    listing: bool,
    page_only: bool,
    target: Path | None,
    workers: int,
    **where: Path | None,
) -> None:
    """`fleet` against the papers' methods, seed by seed (needs the real data in PROTOFLEET_DATA);
    resumable. The tasks paper-* are on the papers' own devices for as many rounds as theirs.

    \b
    protofleet bench cross --only fleet --only fedproto
    protofleet bench cross --page-only --write docs/fleet-method.md
    protofleet bench cross --task 'paper-*' --seeds 3 --write docs/fleet-method.md
    """
    from simulators.cross import cross as bench
    from simulators.cross import newcomers
    from simulators.papers.cell import Places

    named = [*(task.name for task in bench.ALL_TASKS), *(case.name for case in newcomers.CASES)]
    chosen = _chosen(tasks, named, "task")
    only = tuple(_chosen(only, [each.name for each in bench.CONTENDERS], "contender"))
    records = where["records"] or (RECORDS if RECORDS.parent.is_dir() else None)
    places = Places(where["out"] or Path(), records)
    if listing:
        click.echo(_listed(seeds, chosen, only, places))
        return
    runs: dict[str, Callable[[], object]] = {}
    if not page_only:
        for t, c, s in bench.plan(seeds, chosen, only):
            runs[f"{t.name} {c.name} {s}"] = partial(bench.run, t, c, s, places, workers)
        for seed in range(seeds):
            for case in newcomers.CASES:
                for c in newcomers.CONTENDERS:
                    if case.name in chosen and (not only or c.name in only):
                        runs[f"{case.name} {c.name} {seed}"] = partial(
                            newcomers.run, case, c, seed, places.runs
                        )
    failed = run_each(runs)
    _show(seeds, chosen, places, target)
    fail_for(failed)


def _show(seeds: int, tasks: Sequence[str], places: Places, target: Path | None) -> None:
    """The tables of the tasks that were chosen: those of others stay as they are."""
    from simulators.cross import cross as bench
    from simulators.cross import cross_page

    full = {task.name for task in bench.FULL_TASKS}
    beside = None if target is None else target.parent
    blocks = {}
    if set(tasks) - full:
        blocks["figures"] = cross_page.page(seeds, places, beside)
    if set(tasks) & full:
        blocks["full length"] = cross_page.full_page(seeds, places)
    if target is None:
        click.echo("\n\n".join(blocks.values()))
        return
    text = target.read_text()
    for mark, block in blocks.items():
        text = _between(text, mark, block, target)
    target.write_text(text)
    click.echo(f"written: {target}")


def _between(text: str, name: str, block: str, target: Path) -> str:
    before, mark, rest = text.partition(f"<!-- {name} -->\n")
    end = f"<!-- end of {name} -->"
    after = rest.partition(end)[2]
    if not mark or not after:
        raise UsageError(
            f"{target}: no marks to put the figures between", f"<!-- {name} --> and {end}"
        )
    return f"{before}{mark}\n{block}\n{end}{after}"


def _listed(seeds: int, tasks: Sequence[str], only: Sequence[str], places: Places) -> str:
    """A line a task and contender: rounds, and how many seeds are there."""
    from simulators.cross import cross as bench

    there: dict[tuple[str, str], list[bool]] = {}
    rounds: dict[tuple[str, str], int] = {}
    for task, contender, seed in bench.plan(seeds, tasks, only):
        name = (task.name, contender.name)
        rounds[name] = bench.config_of(task, contender, seed).run.rounds
        done = bench.document_of(task, contender, seed, places) is not None
        there.setdefault(name, []).append(done)
    lines = [
        f"{task:<24}{contender:<16}{rounds[task, contender]:>4} rounds"
        f"  {sum(done)} of {len(done)} seeds"
        for (task, contender), done in there.items()
    ]
    missing = sum(not done for seeds_there in there.values() for done in seeds_there)
    return "\n".join([*lines, f"{missing} runs are missing"])


def _chosen(patterns: Sequence[str], names: Sequence[str], what: str) -> list[str]:
    for pattern in patterns:
        if not any(fnmatch(name, pattern) for name in names):
            there_are = f"there are: {', '.join(sorted(names))}"
            raise UsageError(f"no {what} is called {pattern!r}", there_are)
    return [name for name in names if not patterns or any(fnmatch(name, p) for p in patterns)]
