"""`coordinator init` and `coordinator serve`: the service and the file it goes by."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from coordinator.config import DEFAULT, FleetConfig, ServeSection, as_toml, data_dir_of, load
from protofleet.cli.options import SettingFlags
from protofleet.errors import UsageError
from protofleet.settings import layers
from protofleet.settings.broker import BrokerSection
from protofleet.util.files import own_folder

if TYPE_CHECKING:
    from coordinator.uploads.measured import MeasuredLimits
    from protofleet.util.logs import Log

FLAGS = SettingFlags(
    FleetConfig,
    (
        "serve.method",
        "serve.fleet",
        "broker.url",
        "broker.credentials",
        "broker.ca",
        "serve.data_dir",
        "serve.journal",
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
        "serve.ingest",
        "serve.log_format",
        "page.listen",
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
@click.option(
    "--standby",
    is_flag=True,
    help="Where another coordinator has the journal, wait until it is gone, and take over then.",
)
def serve(
    file: Path | None,
    pairs: tuple[str, ...],
    with_broker: bool,
    retry: bool,
    until_done: bool,
    take_over: bool,
    standby: bool,
    **flags: Any,
) -> None:
    """Open rounds, take uploads in, fuse them and publish the outcome, until stopped.

    \b
    coordinator serve --config fleet.toml
    coordinator serve --config fleet.toml --method fedmps --rounds 50 --with-broker
    coordinator serve --config fleet.toml --http 127.0.0.1:8321      with the operator's page
    coordinator serve --journal postgresql://db.lan/orchard --standby     on each of two machines
    """
    from coordinator.journal.database import WriteClaim
    from coordinator.service import build, fencing
    from protofleet.mqtt.topics import check_name
    from protofleet.util.logs import Log

    settings = load(_file(file), os.environ, _layer(flags, pairs))
    check_name("fleet", settings.serve.fleet)
    log = Log(sys.stderr, settings.serve.log_format)
    with broker_of(settings, with_broker) as url:
        address = as_coordinator(settings, url).address(os.environ)
        # Before the journal is opened: a coordinator that may not serve must leave no trace in it.
        above = fencing.epoch_to_top(
            address,
            settings.serve.fleet,
            settings.data_dir,
            take_over=take_over,
            journal=settings.serve.journal,
            opened=build.reads_retained(settings),
        )
        claim = WriteClaim(_standing_by(log) if standby else None, take_over)
        options = build.ServeOptions(retry, until_done, epoch_above=above, claim=claim)
        with (
            build.service(settings, address, log, os.environ, options) as service,
            page_beside(settings, log),
        ):

            def stop(number: int, frame: FrameType | None) -> None:
                service.stop()

            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, stop)
            service.run()


@click.command()
@click.argument("file", type=click.Path(path_type=Path), default=DEFAULT)
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def init(file: Path, force: bool) -> None:
    """Write FILE (fleet.toml) with every setting, its meaning and its default; where a fleet's
    journal is there already, with the limits that its own uploads come to.
    """
    folder = data_dir_of(file) if file.exists() else file.absolute().parent / ServeSection.data_dir
    found = _measured(folder)
    layers.write(file, as_toml(None if found is None else found.limits), over=force)
    if found is not None:
        uploads = f"{found.uploads} uploads of {found.devices} devices in {folder}"
        click.echo(f"[admission] is twice what four in five devices send: {uploads}")
    click.echo(
        f"{file} written; next: edge-agent contract --data SOURCE >> {file}, then:"
        " coordinator serve"
    )


def _measured(folder: Path) -> MeasuredLimits | None:
    """What follows from this directory's journal, if there is one."""
    from coordinator.journal.database import holds_journal

    if not holds_journal(folder):
        return None
    from coordinator.journal.journal import Journal
    from coordinator.uploads import measured

    journal = Journal.read(folder)
    try:
        return measured.of_fleet(journal)
    finally:
        journal.close()


def _standing_by(log: Log) -> Callable[[str], None]:
    """What to do between looks at a journal that another has; systemd takes it for a service."""
    from protofleet.util.systemd import Notifier

    notifier, holders = Notifier(os.environ), [""]

    def look(holder: str) -> None:
        if holder != holders[-1]:
            holders.append(holder)
            log.info("standing by", journal=holder)
            notifier.say("READY=1")
        notifier.alive(time.monotonic())

    return look


@contextmanager
def page_beside(settings: FleetConfig, log: Log) -> Iterator[None]:
    """The operator's page, where it is to be; it sees nothing of the broker or of this process."""
    section = settings.page
    if not section.listen:
        yield
        return
    from protofleet.pages.child import Child
    from protofleet.settings.page import ListenAddress

    ListenAddress.parse(section.listen)
    words = [sys.executable, "-m", "coordinator", "web", "--child", "--http", section.listen]
    words += ["--data-dir", str(settings.data_dir.absolute())]
    words += [word for name in section.names for word in ("--name", name)]
    words += [word for proxy in section.proxies for word in ("--proxy", proxy)]
    words += ["--user-header", section.user_header]
    with Child(words, log):
        yield


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


def _by_invitation(settings: FleetConfig, url: str) -> bool:
    """Whether broker and coordinator show each other certificates of the fleet's own authority."""
    from coordinator.members.office import is_by_invitation

    return url.startswith("mqtts://") and is_by_invitation(settings.data_dir)


def as_coordinator(settings: FleetConfig, url: str) -> BrokerSection:
    """With the coordinator's own certificate, where the fleet has an authority and nothing else was
    said.
    """
    section = replace(settings.broker, url=url)
    if not _by_invitation(settings, url) or section.ca or section.cert or section.credentials:
        return section
    from coordinator.members.office import Office

    office = Office(settings.data_dir, settings.serve.fleet, time.time)
    try:
        ca, cert, key = (str(path) for path in office.own_certificate())
    finally:
        office.close()
    return replace(section, ca=ca, cert=cert, key=key)


@contextmanager
def broker_of(settings: FleetConfig, start: bool) -> Iterator[str]:
    url, data_dir = settings.broker.url, settings.data_dir
    if not start:
        yield url
        return
    from urllib.parse import urlsplit

    from protofleet.mqtt.broker.mosquitto import Listening
    from protofleet.mqtt.broker.run import reloading, running_broker

    # Where the URL says that the broker is, it is to listen; name and password are the clients'.
    parts = urlsplit(url)
    host, port = parts.hostname or "127.0.0.1", parts.port or (8883 if url[4:5] == "s" else 1883)
    listening = Listening(host, port)
    own_folder(data_dir)
    if _by_invitation(settings, url):
        from coordinator.members.office import Office

        office = Office(data_dir, settings.serve.fleet, time.time)
        try:
            folder = office.write_broker_files((url, settings.trust.broker or url)).folder
        finally:
            office.close()
        listening = Listening.of_members(host, port, None, folder)
    with running_broker(data_dir / "broker", listening) as running, reloading(running, listening):
        click.echo(f"broker ({running.kind}) at {running.address}", err=True)
        yield url if listening.files is not None else str(running.address)
