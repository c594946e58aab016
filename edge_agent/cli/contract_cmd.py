"""`edge-agent contract`: what a coordinator's settings must say for samples like these."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from edge_agent.cli.common import device_options, settings


@click.command()
@device_options
def contract(file: Path | None, **flags: Any) -> None:
    """Print the [contract] section of the coordinator's fleet.toml, read off this device's samples.

    Every device's class names must be in it: run it where all classes are, or add the missing ones
    by hand.
    """
    from edge_agent.config import need_source
    from edge_agent.data.source import read

    data = os.environ.get("PROTOFLEET_DATA")
    section = need_source(settings(file, flags)).data
    samples = read(section, Path(data) if data else None).data
    kind = samples.input
    # Lists of names and numbers are written in JSON as in TOML.
    lines = [
        "[contract]",
        f"classes = {json.dumps(list(samples.classes), ensure_ascii=False)}",
        "",
        "[contract.input]",
        f"kind = {json.dumps(kind.kind)}",
        f"shape = {list(kind.shape)}",
        f"mean = {list(kind.mean)}",
        f"std = {list(kind.std)}",
    ]
    click.echo("\n".join(lines))
