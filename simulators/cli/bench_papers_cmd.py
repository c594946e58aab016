"""`protofleet bench papers`: the papers' figures beside ours."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from protofleet.errors import FleetError, UsageError
from protofleet.util.files import write_whole
from simulators.cli.common import engine_options, fail_for

if TYPE_CHECKING:
    from simulators.cluster.engine import Name
    from simulators.papers.cell import Places
    from simulators.papers.plan import PlannedSeed, Times
    from simulators.run.workers import LabEngine

RECORDS = Path("docs/results")


@click.command()
@click.option(
    "--only", multiple=True, help="A cell by name, or several as in fedmps-*; all by default."
)
@click.option(
    "--list", "listing", is_flag=True, help="Run nothing; what there is to run, in order."
)
@click.option("--page-only", is_flag=True, help="Run nothing; the page of what is there.")
@click.option(
    "--measure", is_flag=True, help="Time a few rounds of every kind of cell, for --list."
)
@click.option(
    "--decide",
    is_flag=True,
    help="Leave a run as soon as it has reached its figure, which the best round of a longer one "
    "cannot take back, and go on with the next; a later call without it runs it to its end.",
)
@click.option(
    "--seeds",
    type=int,
    default=None,
    help="At most so many seeds of a cell; as it says by default.",
)
@click.option(
    "--out",
    default="runs/papers",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Where whole runs are kept.",
)
@click.option(
    "--records",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Where a small file of every finished seed is kept; docs/results where that is there.",
)
@click.option(
    "--write",
    "target",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the page here, and its pictures beside it.",
)
@engine_options()
def papers(
    only: tuple[str, ...],
    listing: bool,
    page_only: bool,
    measure: bool,
    decide: bool,
    seeds: int | None,
    target: Path | None,
    workers: int | None,
    engine_name: Name,
    address: str,
    **where: Path | None,
) -> None:
    """The papers' figures beside ours (needs the real data in PROTOFLEET_DATA).

    Cells run one at a time in the order of --list. It may be killed at any moment and called again:
    a run goes on from its checkpoint, and what is on record is not run again. Several may run side
    by side: each takes the next seed that nobody is at.

    \b
    protofleet bench papers --list
    protofleet bench papers --only fedproto-cifar10 --seeds 1
    protofleet bench papers --only 'fedic-fashion-*' --decide --workers 2
    protofleet bench papers --page-only --write docs/results.md
    """
    from simulators.cluster.engine import engine
    from simulators.papers import plan
    from simulators.papers.cell import Places

    records = where["records"] or (RECORDS if RECORDS.is_dir() else None)
    places = Places(where["out"] or Path(), records)
    planned = _chosen(plan.tasks(most=seeds), only)
    if listing:
        click.echo(_listed(planned, places, plan.times(records), seeds))
        return
    if measure:
        _measure(planned, records)
        return
    failed = []
    if not page_only:
        with engine(engine_name, workers, address) as runs_on:
            for failure in _run(planned, places, plan.times(records), runs_on, decide):
                failed += failure
                # After every seed: the next may take hours, and the process may not see its end.
                if target is not None:
                    _write_page(places, target)
    _write_page(places, target)
    if target is not None:
        click.echo(f"written: {target}")
    fail_for(failed)


def _chosen(planned: Sequence[PlannedSeed], only: Sequence[str]) -> list[PlannedSeed]:
    names = sorted({task.cell.name for task in planned})
    for pattern in only:
        if not any(fnmatch(name, pattern) for name in names):
            near = difflib.get_close_matches(pattern, names, 3, cutoff=0.3)
            raise UsageError(
                f"no cell is called {pattern!r}",
                f"nearest: {', '.join(near)}; " * bool(near) + "--list names all",
            )
    return [
        task
        for task in planned
        if not only or any(fnmatch(task.cell.name, pattern) for pattern in only)
    ]


def _run(
    planned: Sequence[PlannedSeed],
    places: Places,
    times: Times,
    engine: LabEngine,
    decide: bool,
) -> Iterator[list[str]]:
    """What is missing, in this order, each with its name where it fails (as one that diverges):
    that stops no other.
    """
    from simulators.papers import cell as cells
    from simulators.papers import plan

    todo = list(plan.missing(planned, places, decide=decide))
    expected = [times.minutes(task.cell, places) or 0.0 for task in todo]

    def run(i: int, task: PlannedSeed, engine: LabEngine) -> list[str]:
        name = f"{task.cell.name} seed {task.seed}"
        one, rest = plan.duration(expected[i]), plan.duration(sum(expected[i:]))
        about = f"about {one}, {rest} to go with all after it"
        click.echo(f"[{i + 1}/{len(todo)}] {task.step}: {name} ({about})", err=True)
        try:
            if not cells.run_seed(task.cell, task.seed, places, engine, decide=decide):
                click.echo(f"{name}: another process is at it", err=True)
        except FleetError as error:
            click.echo(f"\n{name}: {error}", err=True)
            return [name]
        return []

    yield from engine.each([partial(run, i, task) for i, task in enumerate(todo)])


def _write_page(places: Places, target: Path | None) -> None:
    from simulators.papers import cell as cells
    from simulators.papers import own_means, plan
    from simulators.papers.page import gathered, judged, page
    from simulators.papers.readings import SECTIONS

    if target is None:
        click.echo(page(SECTIONS, places, None))
        return
    for task in plan.tasks():
        cells.keep_run(task.cell, task.seed, places)
    for section in SECTIONS:
        for cell in section.cells:
            if cell.name in section.maps:
                cells.keep_embeddings(cell, 0, places)
        if section.own_means:
            for cell, run in judged(section, gathered([section], places)):
                own_means.keep(cell, run, places)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, page(SECTIONS, places, target.parent).encode())


def _listed(planned: Sequence[PlannedSeed], places: Places, times: Times, seeds: int | None) -> str:
    """The figures, most an hour first; then a line a cell under the step that names it first: the
    paper's figure, what is there, how long a run takes.
    """
    from simulators.papers import plan

    lines, step, names, total = _figures(planned, places, times), "", set[str](), 0.0
    todo = {(task.cell.name, task.seed) for task in plan.missing(planned, places)}
    width = max(len(task.cell.name) for task in planned)
    for task in planned:
        minutes = times.minutes(task.cell, places)
        total += (minutes or 0.0) * ((task.cell.name, task.seed) in todo)
        if task.cell.name in names:
            continue
        names.add(task.cell.name)
        if task.step != step:
            step = task.step
            lines += ["", step]
        figure = "" if task.cell.paper is None else f"{100 * task.cell.paper:.2f}"
        long = "?" if minutes is None else plan.duration(minutes)
        state = plan.state_of(task.cell, places, seeds)
        lines.append(f"  {task.cell.name:<{width}}{figure:>8}{long:>9} a seed  {state}")
    ignored = plan.foreign(places)
    if ignored:
        lines += ["", f"records of other settings, ignored: {', '.join(ignored)}"]
    lines += ["", f"{len(todo)} runs are missing, about {plan.duration(total)} of one process"]
    return "\n".join(lines).strip("\n")


def _figures(planned: Sequence[PlannedSeed], places: Places, times: Times) -> list[str]:
    """A line a figure of the papers' main tables: the cell that decides it, its hours, and all
    hours up to there.
    """
    from simulators.papers import plan
    from simulators.papers.readings import SECTIONS

    chosen = {task.cell.name for task in planned}
    cells = [c for s in SECTIONS if s.main for c in s.cells if c.name in chosen]
    ordered = plan.figures(cells, places, times)
    if not ordered:
        return []
    lines = [f"{len(ordered)} figures of the papers' main tables, most an hour first (one seed)"]
    width, total = max(len(figure.cell.name) for figure in ordered), 0.0
    for number, figure in enumerate(ordered, 1):
        cell, minutes = figure.cell, figure.minutes
        total += (minutes or 0.0) * (figure.state == "to run")
        if figure.state == "to run":
            words = "? h" if minutes is None else f"{minutes / 60:.2f} h"
        else:
            words = "there" if figure.state == "there" else f"by {cell.home}"
        paper = f"{100 * (cell.paper or 0):.2f}"
        start = f"{number:>4}  {cell.name:<{width}}  {cell.where:<19}{paper:>6}"
        lines.append(f"{start}  {words:<20} {total / 60:>6.1f} h so far")
    return lines


def _measure(planned: Sequence[PlannedSeed], records: Path | None) -> None:
    """One cell of every kind that was not timed yet; each is kept as soon as it is known."""
    from simulators.papers import plan

    if records is None:
        raise UsageError("nowhere to keep the times", "name a folder with --records")
    # The smallest of its kind stands for all: their rounds differ by the samples.
    for cell in sorted({t.cell.name: t.cell for t in planned}.values(), key=plan.samples):
        times = plan.times(records)
        if plan.kind_of(cell) in times.kinds:
            continue
        try:
            seconds = round(plan.measure(cell), 3)
        except FleetError as error:
            click.echo(f"{cell.name}: {error}", err=True)
            continue
        plan.write_times(records, {**times.seconds, cell.name: seconds})
        click.echo(f"{cell.name:<32}{seconds:>9.2f} s a round", err=True)
        sys.stderr.flush()
