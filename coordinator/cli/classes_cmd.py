"""`coordinator classes`: what the fleet's devices know, by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from coordinator.cli.live_cmd import where
from coordinator.service.control import ask
from protofleet.util.logs import printable


@click.group()
def classes() -> None:
    """The classes that devices tell apart: list, admit, rename, remove, go back."""


@classes.command(name="list")
@where
def show(data_dir: Path, as_json: bool) -> None:
    """Every class, those that wait, and every earlier version."""
    echo_classes(ask(data_dir, "classes", what="list"), as_json)


@classes.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@where
def admit(names: tuple[str, ...], data_dir: Path, as_json: bool) -> None:
    """Let classes in that wait (policy manual), or that were removed."""
    for name in names:
        listing = ask(data_dir, "classes", what="admit", name=name)
    echo_classes(listing, as_json)


@classes.command()
@click.argument("name")
@where
def remove(name: str, data_dir: Path, as_json: bool) -> None:
    """Take a class off every following device."""
    echo_classes(ask(data_dir, "classes", what="remove", name=name), as_json)


@classes.command()
@click.argument("name")
@click.argument("to")
@where
def rename(name: str, to: str, data_dir: Path, as_json: bool) -> None:
    """Call a class something else, on every following device."""
    echo_classes(ask(data_dir, "classes", what="rename", name=name, to=to), as_json)


@classes.command()
@click.argument("version", type=int)
@where
def back(version: int, data_dir: Path, as_json: bool) -> None:
    """Go back to an earlier version; the versions since stay in the list."""
    echo_classes(ask(data_dir, "classes", what="back", version=version), as_json)


def echo_classes(listing: dict[str, Any], as_json: bool) -> None:
    """The answer, for people or programs."""
    if as_json:
        click.echo(json.dumps(listing, indent=1))
        return
    click.echo(f"lineage {listing['lineage'] or 'none yet'}, new classes: {listing['policy']}")
    if listing["bundle"]:
        devices = len(listing["contributors"])
        click.echo(f"bundle {listing['bundle'][:16]}, contributions of {devices} devices")
    if listing["awaited"]:
        click.echo(f"still to send theirs: {', '.join(listing['awaited'])}")
    for row in listing["classes"]:
        click.echo(printable(f"  {row['name']:<24} {_row(row)}".rstrip()))
    for name in listing["waiting"]:
        by = listing["waiting_by"][name] or "a device"
        click.echo(f"  {name:<24} of {by} waits: coordinator classes admit {name!r}")
    for row in listing["versions"]:
        click.echo(f"version {row['version']}: {row['why']}")


def _row(row: dict[str, Any]) -> str:
    """What there is of a class: prototypes, or samples that devices contributed."""
    how = "brought" if "samples" in row else "enrolled"
    by = f"{how} by {row['by'] or 'a device'}" if row["enrolled"] else ""
    if "samples" not in row:
        return f"{row['rows']:>3} prototypes  {by or ('' if row['rows'] else 'not known yet')}"
    notes = [by, "removed" * row["removed"], "not shown" * (not row["shown"])]
    notes += ["not known yet"] if not row["samples"] else []
    words = ", ".join(filter(None, notes))
    return f"{row['samples']:>6} samples of {row['devices']} devices  {words}"
