"""`coordinator init` and `coordinator serve`: the service and the file it goes by."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import click

from protofleet.errors import UsageError

FLAGS = {
    "method": ("serve", "method", "A method of `protofleet methods`."),
    "fleet": ("serve", "fleet", "The fleet's name."),
    "broker": ("broker", "url", "The broker, as mqtt://host:1883."),
    "credentials": ("broker", "credentials", "A file with user name and password."),
    "data_dir": ("serve", "data_dir", "Where the journal is kept."),
    "rounds": ("serve", "rounds", "Rounds in all; 0: no end."),
    "min_agents": ("serve", "min_agents", "Devices that must be there before a round opens."),
    "quorum": ("serve", "quorum", "Share of those asked that is enough at the deadline."),
    "round_timeout": ("serve", "round_timeout", "Seconds from announcement to deadline."),
    "every": ("serve", "every", "Seconds from one round's opening to the next, at least."),
    "participation": ("serve", "participation", "Share of the devices that is asked in a round."),
    "max_staleness": ("serve", "max_staleness", "Rounds an upload may be late and still be fused."),
    "mode": ("serve", "mode", "sync, or async: fuse whenever --cut uploads have come."),
    "cut": ("serve", "cut", "async: uploads that make a round."),
    "run": ("serve", "run", "Name of the run; by default one is made up."),
    "log_format": ("serve", "log_format", "text or json."),
}


def _flags(command: Any) -> Any:
    for name, (_, _, help) in reversed(FLAGS.items()):
        command = click.option("--" + name.replace("_", "-"), name, default=None, help=help)(
            command
        )
    return command


@click.command()
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    default=None,
    help="By default ./fleet.toml.",
)
@_flags
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
    from coordinator import config
    from coordinator.service import build, fencing
    from protofleet.mqtt.address import Address
    from protofleet.mqtt.topics import check_name
    from protofleet.util.logs import Log

    settings = config.load(_file(file), os.environ, _layers(flags, pairs))
    check_name("fleet", settings.serve.fleet)
    log = Log(sys.stderr, settings.serve.log_format)
    with _broker(settings.data_dir, settings.broker.url, with_broker) as url:
        held = settings.broker
        address = Address.parse(
            url,
            credentials_file=Path(held.credentials) if held.credentials else None,
            environ=os.environ,
            ca=Path(held.ca) if held.ca else None,
            cert=Path(held.cert) if held.cert else None,
            key=Path(held.key) if held.key else None,
        )
        above = fencing.epoch_to_top(
            address, settings.serve.fleet, settings.data_dir, take_over=take_over
        )
        with build.service(
            settings, address, log, os.environ, retry=retry, once=until_done, epoch_above=above
        ) as service:

            def heard(number: int, frame: FrameType | None) -> None:
                service.stop()

            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, heard)
            service.run()


@click.command()
@click.argument("file", type=click.Path(path_type=Path), default=Path("fleet.toml"))
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def init(file: Path, force: bool) -> None:
    """Write FILE (fleet.toml) with every setting, its meaning and its default."""
    from coordinator.config import as_toml

    try:
        with file.open("w" if force else "x") as opened:
            opened.write(as_toml())
    except FileExistsError:
        raise UsageError(f"{file} is already there", "--force writes over it") from None
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None
    click.echo(
        f"{file} written; set [contract] by `edge-agent contract --data SOURCE`, then: coordinator serve"
    )


def _file(file: Path | None) -> Path | None:
    default = Path("fleet.toml")
    return default if file is None and default.exists() else file


def _layers(flags: Mapping[str, Any], pairs: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    layers: dict[str, dict[str, Any]] = {}
    for name, (section, setting, _) in FLAGS.items():
        if flags.get(name) is not None:
            layers.setdefault(section, {})[setting] = flags[name]
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise UsageError(f"setting {pair!r} is not of the form name=value")
        layers.setdefault("settings", {})[name.strip()] = text.strip()
    return layers


@contextmanager
def _broker(data_dir: Path, url: str, wanted: bool) -> Iterator[str]:
    if not wanted:
        yield url
        return
    from urllib.parse import urlsplit

    from protofleet.mqtt.broker.mosquitto import Listening
    from protofleet.mqtt.broker.run import running_broker

    parts = urlsplit(url)
    listening = Listening(parts.hostname or "127.0.0.1", parts.port or 1883)
    with running_broker(data_dir / "broker", listening) as running:
        click.echo(f"broker ({running.kind}) at {running.address}", err=True)
        yield str(running.address)
