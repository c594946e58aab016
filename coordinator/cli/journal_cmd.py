"""Commands on a journal itself: compute it again, make it smaller, copy it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

from protofleet.errors import FleetError
from protofleet.util.logs import printable


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def replay(directory: Path, as_json: bool) -> None:
    """Compute every state again from the uploads in DIRECTORY's journal, and compare hashes."""
    from coordinator.journal.journal import Journal
    from coordinator.service.replay import replayed

    _check(directory)
    journal = Journal(directory, time.time)
    try:
        states = replayed(journal)
    finally:
        journal.close()
    if as_json:
        click.echo(json.dumps([vars(state) for state in states], indent=1))
    else:
        for state in states:
            click.echo(f"round {state.round:<6} {state.verdict:<10} {state.recorded[:16]}")
        same = sum(state.verdict == "same" for state in states)
        click.echo(f"{same} of {len(states)} states computed again to the same hash")
    if any(state.verdict == "differs" for state in states):
        raise FleetError(
            "a state differs from what was recorded", "was it made with other versions?"
        )


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--keep",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    help="Rounds whose uploads and states stay in full; one that is open always does.",
)
def compact(directory: Path, keep: int) -> None:
    """Give room back: of older rounds in DIRECTORY only hashes, cuts and senders stay. The service
    must not run.
    """
    from coordinator.journal.journal import Journal

    _check(directory)
    journal = Journal(directory, time.time)
    try:
        freed = journal.compact(keep)
    finally:
        journal.close()
    click.echo(f"{freed / 1e6:.2f} MB given back, the last {keep} rounds kept in full")


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.argument("target")
def backup(directory: Path, target: str) -> None:
    """Copy DIRECTORY's journal to TARGET, whole, while the service runs or not.

    TARGET is a file, or a PostgreSQL database in which there is no journal yet:

    \b
    coordinator backup coordinator-data /backups/journal.db
    coordinator backup coordinator-data postgresql://db.lan/orchard
    """
    from coordinator.journal.database import is_address
    from coordinator.journal.journal import Journal
    from coordinator.service.control import NotRunning, ask

    _check(directory)
    try:
        # A journal that is in use belongs to the service: where the bytes of uploads lie changes
        # while it goes on.
        place = target if is_address(target) else str(Path(target).absolute())
        answer: dict[str, Any] = ask(directory, "backup", target=place)
    except NotRunning:
        journal = Journal(directory, time.time)
        try:
            journal.backup(target)
        finally:
            journal.close()
        answer = {"written": target}
    click.echo(f"written: {answer['written']}")


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--margin", default=2.0, show_default=True, help="Times what most devices stay below."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def limits(directory: Path, margin: float, as_json: bool) -> None:
    """What DIRECTORY's devices stay below, as an [admission] section for fleet.toml: of each figure
    the largest that four in five devices have, times a margin.
    """
    from coordinator.journal.journal import Journal
    from coordinator.uploads import measured
    from protofleet.settings.fields import to_plain

    _check(directory)
    journal = Journal.read(directory)
    try:
        found = measured.of_fleet(journal, margin)
    finally:
        journal.close()
    if found is None:
        raise FleetError(f"{directory} holds no uploads yet", "let a round of exchange go by")
    limits, over = to_plain(found.limits), found.over
    if as_json:
        document = {"admission": limits, "devices": found.devices, "over": over}
        click.echo(json.dumps(document, indent=1))
        return
    click.echo(f"# From {found.uploads} uploads of {found.devices} devices.")
    refused = f"would have been refused: {', '.join(over[:8])}" if over else "within them: all"
    click.echo(printable(f"# {refused}"))
    click.echo("[admission]")
    for name, value in limits.items():
        click.echo(f"{name} = {value}")


def _check(directory: Path) -> None:
    """A directory without a journal is no place to begin one."""
    from coordinator.journal.database import holds_journal

    if not holds_journal(directory):
        raise FleetError(f"{directory} holds no journal")
