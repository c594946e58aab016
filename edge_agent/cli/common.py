"""Options that several commands share: where the settings are, and flags that go before them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from edge_agent.config import Config, from_pairs, load, with_id

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT = Path("agent.toml")
FLAGS = {
    "id": ("agent", "id", "This device's name."),
    "data_dir": ("agent", "data_dir", "Where checkpoint and outbox are kept."),
    "log_format": ("agent", "log_format", "text or json."),
    "broker": ("broker", "url", "The broker, as mqtt://host:1883."),
    "credentials": ("broker", "credentials", "A file with user name and password."),
    "fleet": ("fleet", "name", "The fleet's name."),
    "data": ("data", "source", "A folder of images by class, an .npz, or a data set's name."),
}


def told(command: F) -> F:
    """`--config`, the flags above, and `--set section.name=value` for everything else."""
    command = click.option(
        "--set", "pairs", multiple=True, metavar="SECTION.NAME=VALUE", help="Any other setting."
    )(command)
    for name, (_, _, help) in reversed(FLAGS.items()):
        command = click.option("--" + name.replace("_", "-"), name, default=None, help=help)(
            command
        )
    return click.option(
        "--config",
        "file",
        type=click.Path(path_type=Path),
        default=None,
        help="Settings; ./agent.toml if it is there.",
    )(command)


def settings(file: Path | None, values: Mapping[str, Any]) -> Config:
    """Flags over environment over file over defaults."""
    if file is None and DEFAULT.exists():
        file = DEFAULT
    layers = from_pairs(values.get("pairs", ()))
    for name, (section, setting, _) in FLAGS.items():
        if values.get(name) is not None:
            layers.setdefault(section, {})[setting] = values[name]
    return with_id(load(file, os.environ, layers))
