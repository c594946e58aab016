"""`edge-agent config check`: are the settings right, before anything is started?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from edge_agent.cli.common import device_options, settings, warned


@click.group()
def config() -> None:
    """The settings."""


@config.command()
@device_options
def check(file: Path | None, **flags: Any) -> None:
    """Read the settings and the samples as `run` would, and say what was found."""
    from edge_agent.cameras.origins import cameras_of
    from edge_agent.daemon import start
    from edge_agent.data.source import survey

    config = settings(file, flags)
    broker = warned(start.check(config, os.environ))
    data = os.environ.get("PROTOFLEET_DATA")
    samples = survey(config.data, Path(data) if data else None)
    classes = samples.classes
    click.echo(f"device   {config.id} in fleet {config.fleet.name}")
    click.echo(f"broker   {broker}")
    click.echo(f"keeps    {config.data_dir}")
    if config.camera.sources:
        click.echo(f"watches  {', '.join(camera.shown for camera in cameras_of(config.camera))}")
    click.echo(f"learns   {samples.samples} samples of {len(classes)} classes: {_few(classes)}")


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
