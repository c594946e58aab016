"""`coordinator init` and `coordinator serve`: the service and the file it goes by."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import click

from coordinator.config import DEFAULT, FleetConfig, as_toml, load
from protofleet.cli.options import SettingFlags
from protofleet.errors import UsageError
from protofleet.settings import layers
from protofleet.util.files import own_folder

FLAGS = SettingFlags(
    FleetConfig,
    (
        "serve.method",
        "serve.fleet",
        "broker.url",
        "broker.credentials",
        "serve.data_dir",
        "serve.rounds",
        "serve.min_agents",
        "serve.quorum",
        "serve.round_timeout",
        "serve.every",
        "serve.participation",
        "serve.max_staleness",
        "serve.mode",
        "serve.cut",
        "serve.run",
        "serve.log_format",
    ),
)


@click.command()
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    default=None,
    help="By default ./fleet.toml.",
)
@FLAGS
@click.option(
    "--set", "pairs", multiple=True, metavar="NAME=VALUE", help="A setting of the method."
)
@click.option(
    "--with-broker", is_flag=True, help="Start a broker as well (mosquitto, else the embedded one)."
)
@click.option("--retry", is_flag=True, help="Keep trying even where the broker refuses us.")
@click.option("--until-done", is_flag=True, help="End when the last round is fused.")
@click.option(
    "--take-over", is_flag=True, help="Serve even if another coordinator seems to: it will stop."
)
def serve(
    file: Path | None,
    pairs: tuple[str, ...],
    with_broker: bool,
    retry: bool,
    until_done: bool,
    take_over: bool,
    **flags: Any,
) -> None:
    """Open rounds, take uploads in, fuse them and publish the outcome, until stopped.

    \b
    coordinator serve --config fleet.toml
    coordinator serve --config fleet.toml --method fedmps --rounds 50 --with-broker
    """
    from coordinator.service import build, fencing
    from protofleet.mqtt.topics import check_name
    from protofleet.util.logs import Log

    settings = load(_file(file), os.environ, _layer(flags, pairs))
    check_name("fleet", settings.serve.fleet)
    log = Log(sys.stderr, settings.serve.log_format)
    with _broker(settings.data_dir, settings.broker.url, with_broker) as url:
        address = replace(settings.broker, url=url).address(os.environ)
        # Before the journal is opened: a coordinator that may not serve must leave no trace in it.
        above = fencing.epoch_to_top(
            address, settings.serve.fleet, settings.data_dir, take_over=take_over
        )
        options = build.ServeOptions(retry, until_done, epoch_above=above)
        with build.service(settings, address, log, os.environ, options) as service:

            def stop(number: int, frame: FrameType | None) -> None:
                service.stop()

            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, stop)
            service.run()


@click.command()
@click.argument("file", type=click.Path(path_type=Path), default=DEFAULT)
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def init(file: Path, force: bool) -> None:
    """Write FILE (fleet.toml) with every setting, its meaning and its default."""
    layers.write(file, as_toml(), over=force)
    click.echo(
        f"{file} written; next: edge-agent contract --data SOURCE >> {file}, then:"
        " coordinator serve"
    )


def _file(file: Path | None) -> Path | None:
    return DEFAULT if file is None and DEFAULT.exists() else file


def _layer(flags: Mapping[str, Any], pairs: tuple[str, ...]) -> layers.Sections:
    sections = FLAGS.layer(flags)
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise UsageError(f"setting {pair!r} is not of the form name=value")
        sections.setdefault("settings", {})[name.strip()] = text.strip()
    return sections


@contextmanager
def _broker(data_dir: Path, url: str, start: bool) -> Iterator[str]:
    if not start:
        yield url
        return
    from urllib.parse import urlsplit

    from protofleet.mqtt.broker.mosquitto import Listening
    from protofleet.mqtt.broker.run import running_broker

    # Where the URL says that the broker is, it is to listen; name and password are the clients'.
    parts = urlsplit(url)
    listening = Listening(parts.hostname or "127.0.0.1", parts.port or 1883)
    own_folder(data_dir)
    with running_broker(data_dir / "broker", listening) as running:
        click.echo(f"broker ({running.kind}) at {running.address}", err=True)
        yield str(running.address)
