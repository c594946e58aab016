"""`edge-agent init`: a commented agent.toml to begin with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from edge_agent.config import Config, as_toml
from protofleet.errors import UsageError


@click.command()
@click.argument("file", type=click.Path(path_type=Path), default=Path("agent.toml"))
@click.option("--id", default="", help="This device's name; by default its host name.")
@click.option("--fleet", default="", help="The fleet's name.")
@click.option("--broker", default="", help="The broker, as mqtt://host:1883.")
@click.option(
    "--data", default="", help="A folder of images by class, an .npz, or a data set's name."
)
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def init(file: Path, id: str, fleet: str, broker: str, data: str, force: bool) -> None:
    """Write FILE (agent.toml) with every setting, its meaning and its default."""
    base = Config()
    config = replace(
        base,
        agent=replace(base.agent, id=id),
        broker=replace(base.broker, url=broker or base.broker.url),
        fleet=replace(base.fleet, name=fleet or base.fleet.name),
        data=replace(base.data, source=data),
    )
    try:
        with file.open("w" if force else "x") as opened:
            opened.write(as_toml(config))
    except FileExistsError:
        raise UsageError(f"{file} is already there", "--force writes over it") from None
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None
    click.echo(f"{file} written; next: edge-agent config check --config {file}")
