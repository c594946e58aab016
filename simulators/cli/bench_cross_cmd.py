"""`protofleet bench cross`: `fleet` against the papers' methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import click

from protofleet.errors import UsageError
from simulators.cli.common import fail_for, run_each, workers_option


@click.command()
@click.option(
    "--task", "tasks", multiple=True, help="A task by name, or late or rare; all by default."
)
@click.option("--only", multiple=True, help="A contender by name; all by default.")
@click.option("--seeds", default=5, show_default=True, help="Seeds 0, 1, … of every run.")
@click.option("--page-only", is_flag=True, help="Run nothing; the tables of what is there.")
@click.option(
    "--out",
    default="runs/cross",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Where runs are kept.",
)
@click.option(
    "--write",
    "target",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Put the tables into this page, between its marks.",
)
@workers_option
def cross(
    tasks: tuple[str, ...],
    only: tuple[str, ...],
    seeds: int,
    page_only: bool,
    out: Path,
    target: Path | None,
    workers: int,
) -> None:
    """`fleet` against the papers' methods, seed by seed (needs the real data in PROTOFLEET_DATA);
    resumable.

    \b
    protofleet bench cross --only fleet --only fedproto
    protofleet bench cross --page-only --write docs/fleet-method.md
    """
    from simulators.papers import cross as bench
    from simulators.papers import cross_page, newcomers

    task_names = {*(task.name for task in bench.TASKS), *(case.name for case in newcomers.CASES)}
    contender_names = {contender.name for contender in bench.CONTENDERS}
    _refuse_unknown(tasks, task_names, "task")
    _refuse_unknown(only, contender_names, "contender")
    runs: dict[str, Callable[[], object]] = {}
    if not page_only:
        for t, c, s in bench.plan(seeds, tasks, only):
            runs[f"{t.name} {c.name} {s}"] = partial(bench.run, t, c, s, out, workers)
        for seed in range(seeds):
            for case in newcomers.CASES:
                for c in newcomers.CONTENDERS:
                    if (not tasks or case.name in tasks) and (not only or c.name in only):
                        runs[f"{case.name} {c.name} {seed}"] = partial(
                            newcomers.run, case, c, seed, out
                        )
    failed = run_each(runs)
    if target is None:
        click.echo(cross_page.page(seeds, out, None))
    else:
        before, mark, rest = target.read_text().partition("<!-- figures -->\n")
        after = rest.partition("<!-- end of figures -->")[2]
        if not mark or not after:
            raise UsageError(
                f"{target}: no marks to put the figures between",
                "<!-- figures --> and <!-- end of figures -->",
            )
        figures = cross_page.page(seeds, out, target.parent)
        target.write_text(f"{before}{mark}\n{figures}\n<!-- end of figures -->{after}")
        click.echo(f"written: {target}")
    fail_for(failed)


def _refuse_unknown(requested: Sequence[str], existing: set[str], what: str) -> None:
    for name in requested:
        if name not in existing:
            there_are = f"there are: {', '.join(sorted(existing))}"
            raise UsageError(f"no {what} is called {name!r}", there_are)
