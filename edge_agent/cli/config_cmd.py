"""`edge-agent config check`: are the settings right, before anything is started?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from edge_agent.cli.common import device_options, settings


@click.group()
def config() -> None:
    """The settings."""


@config.command()
@device_options
def check(file: Path | None, **flags: Any) -> None:
    """Read the settings and the samples as `run` would, and say what was found."""
    from edge_agent.daemon import start
    from edge_agent.data.source import survey

    found = settings(file, flags)
    where = start.check(found, os.environ)
    data = os.environ.get("PROTOFLEET_DATA")
    seen = survey(found.data, Path(data) if data else None)
    click.echo(f"device   {found.id} in fleet {found.fleet.name}")
    click.echo(f"broker   {where}")
    click.echo(f"keeps    {found.data_dir}")
    click.echo(
        f"learns   {seen.samples} samples of {len(seen.classes)} classes: {_few(seen.classes)}"
    )


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
