"""Commands on a journal itself: compute it again, make it smaller, copy it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

from protofleet.errors import FleetError


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def replay(directory: Path, as_json: bool) -> None:
    """Compute every state again from the uploads in DIRECTORY's journal, and compare hashes."""
    from coordinator.journal.journal import Journal
    from coordinator.service.replay import replayed

    if not (directory / "journal.db").exists():
        raise FleetError(f"{directory} holds no journal")
    journal = Journal(directory, time.time)
    try:
        found = replayed(journal)
    finally:
        journal.close()
    if as_json:
        click.echo(json.dumps([vars(each) for each in found], indent=1))
    else:
        for each in found:
            click.echo(f"round {each.round:<6} {each.verdict:<10} {each.recorded[:16]}")
        click.echo(
            f"{sum(e.verdict == 'same' for e in found)} of {len(found)} states computed again to the same hash"
        )
    if any(each.verdict == "differs" for each in found):
        raise FleetError(
            "a state differs from what was recorded", "was it made with other versions?"
        )


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--keep", default=100, show_default=True, help="Rounds whose uploads and states stay in full."
)
def compact(directory: Path, keep: int) -> None:
    """Give room back: of older rounds in DIRECTORY only hashes, cuts and senders stay. The service
    must not run.
    """
    from coordinator.journal.journal import Journal

    if not (directory / "journal.db").exists():
        raise FleetError(f"{directory} holds no journal")
    journal = Journal(directory, time.time)
    try:
        freed = journal.compact(keep)
    finally:
        journal.close()
    click.echo(f"{freed / 1e6:.2f} MB given back, the last {keep} rounds kept in full")


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.argument("target", type=click.Path(path_type=Path))
def backup(directory: Path, target: Path) -> None:
    """Copy DIRECTORY's journal to TARGET, whole, while the service runs or not."""
    from coordinator.journal.journal import Journal
    from coordinator.service.control import NotRunning, ask

    if not (directory / "journal.db").exists():
        raise FleetError(f"{directory} holds no journal")
    try:
        answer: dict[str, Any] = ask(directory, "backup", target=str(target.absolute()))
    except NotRunning:
        journal = Journal(directory, time.time)
        try:
            journal.backup(target)
        finally:
            journal.close()
        answer = {"written": str(target)}
    click.echo(f"written: {answer['written']}")
