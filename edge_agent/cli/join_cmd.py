"""`edge-agent join`: be a member of a fleet, by a token of its coordinator."""

from __future__ import annotations

import os
from pathlib import Path

import click

from edge_agent.cli.common import DEFAULT
from edge_agent.config import Config, load
from protofleet.errors import UsageError


@click.command()
@click.argument("token")
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    help="Settings; ./agent.toml if it is there.",
)
@click.option("--data-dir", help="Where this device's files are, and its key will be.")
@click.option("--id", "name", help="This device's name, if it is to be the token's.")
@click.option("--force", is_flag=True, help="Join anew, with another key.")
@click.option(
    "--wait", default=60.0, show_default=True, help="Seconds for the coordinator's answer."
)
def join(
    token: str, file: Path | None, data_dir: str | None, name: str | None, force: bool, wait: float
) -> None:
    """Make a key and have the fleet's authority sign for it. TOKEN is what `coordinator invite`
    printed; it works once, and until it expires.

    \b
    edge-agent join pf1.haFk...
    edge-agent run --data ./photos
    """
    from protofleet.member import join as joining
    from protofleet.trust import tokens

    invitation = tokens.of_text(token)
    if name is not None and name != invitation.name:
        raise UsageError(f"the invitation is for {invitation.name}, not for {name}")
    if file is None and DEFAULT.exists():
        file = DEFAULT
    flags = {"agent": {"data_dir": data_dir}} if data_dir is not None else {}
    place = Path(data_dir) if force and data_dir else _data_dir(file, flags)
    member = joining.join(
        invitation,
        place,
        anew=force,
        patience=wait,
        tell=lambda words: click.echo(words, err=True),
    )
    click.echo(f"joined {member.fleet} as {member.name}; its key is {member.key}")


def _data_dir(file: Path | None, flags: dict[str, dict[str, str]]) -> Path:
    config: Config = load(file, os.environ, flags)
    return config.data_dir
