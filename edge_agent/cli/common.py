"""Options that several commands share: where the settings are, and flags that go before them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from edge_agent.config import Config, from_pairs, load, with_id
from protofleet.cli.options import SettingFlags
from protofleet.settings.layers import laid

if TYPE_CHECKING:
    from protofleet.mqtt.address import Address

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT = Path("agent.toml")
FLAGS = SettingFlags(
    Config,
    (
        "agent.id",
        "agent.data_dir",
        "agent.log_format",
        "broker.url",
        "broker.credentials",
        "broker.ca",
        "fleet.name",
        "data.source",
    ),
)


def device_options(command: F) -> F:
    """`--config`, the flags above, and `--set section.name=value` for everything else."""
    command = click.option(
        "--set", "pairs", multiple=True, metavar="SECTION.NAME=VALUE", help="Any other setting."
    )(command)
    return click.option(
        "--config",
        "file",
        type=click.Path(path_type=Path),
        default=None,
        help="Settings; ./agent.toml if it is there.",
    )(FLAGS(command))


def settings(file: Path | None, values: Mapping[str, Any]) -> Config:
    """Flags over environment over file over defaults."""
    if file is None and DEFAULT.exists():
        file = DEFAULT
    flags = laid(from_pairs(values.get("pairs", ())), FLAGS.layer(values))
    return with_id(load(file, os.environ, flags))


def warned(address: Address) -> Address:
    """The same, and a line on stderr if a password would go there in the open."""
    if address.in_the_open:
        click.echo(f"warning: {address.in_the_open}", err=True)
    return address
