"""`protofleet bench papers`: the papers' figures beside ours."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from protofleet.errors import UsageError
from simulators.cli.common import fail_for, run_each, workers_option


@click.command()
@click.option("--only", multiple=True, help="A cell by name; all by default.")
@click.option("--page-only", is_flag=True, help="Run nothing; the page of what is there.")
@click.option(
    "--seeds",
    default=3,
    show_default=True,
    help="Seeds 0, 1, … of every cell; some take one more or less.",
)
@click.option(
    "--out",
    default="runs/papers",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Where runs are kept.",
)
@click.option(
    "--write",
    "target",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the page here, and its pictures beside it.",
)
@workers_option
def papers(
    only: tuple[str, ...], page_only: bool, seeds: int, out: Path, target: Path | None, workers: int
) -> None:
    """The papers' figures beside ours (needs the real data in PROTOFLEET_DATA); resumable run by
    run.

    \b
    protofleet bench papers --only fedproto-cifar10 --seeds 3
    protofleet bench papers --page-only --write docs/results.md
    """
    from simulators.papers.cell import run_cell
    from simulators.papers.page import page
    from simulators.papers.readings import ORDER, SECTIONS

    names = [cell.name for cell in ORDER]
    for name in only:
        if name not in names:
            raise UsageError(f"no cell is called {name!r}", f"there are: {', '.join(names)}")
    chosen = [cell for cell in ORDER if cell.name in only or not (only or page_only)]
    failed = run_each({cell.name: partial(run_cell, cell, seeds, out, workers) for cell in chosen})
    if target is None:
        click.echo(page(SECTIONS, seeds, out, None))
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page(SECTIONS, seeds, out, target.parent))
        click.echo(f"written: {target}")
    fail_for(failed)
