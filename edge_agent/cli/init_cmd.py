"""`edge-agent init`: a commented agent.toml to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from edge_agent.cli.common import DEFAULT
from edge_agent.config import Config, as_toml, load
from protofleet.cli.options import SettingFlags
from protofleet.mqtt.topics import check_name
from protofleet.settings import layers

FLAGS = SettingFlags(Config, ("fleet.name", "broker.url", "data.source"))


@click.command()
@click.argument("file", type=click.Path(path_type=Path), default=DEFAULT)
@click.option("--id", default="", help="This device's name; by default its host name.")
@FLAGS
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def init(file: Path, id: str, force: bool, **flags: Any) -> None:
    """Write FILE (agent.toml) with every setting, its meaning and its default."""
    # No environment: the file is for whoever runs the device later, and perhaps elsewhere. An empty
    # text is no wish: `--fleet ""` leaves the default.
    sections = FLAGS.layer({name: text or None for name, text in flags.items()})
    config = load(None, {}, layers.laid({"agent": {"id": id}}, sections))
    # What `run` would refuse is not written down first.
    check_name("device", config.id)
    check_name("fleet", config.fleet.name)
    layers.write(file, as_toml(config), over=force)
    click.echo(f"{file} written; next: edge-agent config check --config {file}")
