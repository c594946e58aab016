"""`coordinator relay`: a site's coordinator, for its own devices and as one member of the fleet
above.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coordinator.cli import serve_cmd
from coordinator.config import DEFAULT, FleetConfig, load
from protofleet.cli.options import SettingFlags
from protofleet.util.stopping import StopRequest

if TYPE_CHECKING:
    from coordinator.relay.agreement import FleetAgreement
    from coordinator.relay.reach import FleetAbove

FLAGS = SettingFlags(
    FleetConfig,
    ("serve.fleet", "serve.data_dir", "serve.log_format", "page.listen"),
)


@click.command()
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    default=None,
    help="By default ./fleet.toml.",
)
@click.option("--up", help="The broker of the fleet above, as mqtts://host:8883.")
@click.option("--down", help="The broker of this site's devices, as mqtt://127.0.0.1:1883.")
@click.option("--name", help="This site's name in the fleet above.")
@FLAGS
@click.option("--join", "token", help="Be a member above first, by what its `invite` printed.")
@click.option(
    "--with-broker", is_flag=True, help="Start a broker as well (mosquitto, else the embedded one)."
)
@click.option("--retry", is_flag=True, help="Keep trying even where the broker refuses us.")
@click.option(
    "--take-over", is_flag=True, help="Serve even if another coordinator seems to: it will stop."
)
def relay(
    file: Path | None,
    up: str | None,
    down: str | None,
    name: str | None,
    token: str | None,
    with_broker: bool,
    retry: bool,
    take_over: bool,
    **flags: Any,
) -> None:
    """Collect a site's devices at their own broker, and be one member of the fleet above.

    What goes up is the sum of what the devices contributed, in whole numbers; what comes down is
    the classifier of the whole fleet. The line up may be cut for hours: devices notice nothing.
    The coordinator above must expect it: [admission] sites = ["north"] in its fleet.toml.

    \b
    coordinator relay --up mqtt://head:1883 --down mqtt://127.0.0.1:1883 --name north
    coordinator relay --join pf1.haFk... --down mqtts://127.0.0.1:8883 --with-broker
    coordinator status                                     how it stands, with the fleet above, too
    """
    from coordinator.relay import reach
    from coordinator.service import build, fencing
    from protofleet.mqtt.topics import check_name
    from protofleet.util.logs import Log

    if file is None and DEFAULT.exists():
        file = DEFAULT
    sections = FLAGS.layer(flags)
    sections["relay"] = {n: v for n, v in (("url", up), ("name", name)) if v is not None}
    sections["broker"] = {} if down is None else {"url": down}
    settings = load(file, os.environ, sections, site=True)
    if token is not None:
        reach.join(token, settings.data_dir, lambda words: click.echo(words, err=True))
    settings, member = reach.settled(settings)
    check_name("fleet", settings.serve.fleet)
    check_name("site", settings.relay.name)
    log = Log(sys.stderr, settings.serve.log_format)
    stopping = StopRequest()
    with serve_cmd.broker_of(settings, with_broker) as url:
        address = serve_cmd.as_coordinator(settings, url).address(os.environ)
        fleet = reach.FleetAbove(settings.relay, settings.serve.fleet, member, log)
        agreement = _agreement(settings, fleet, stopping)
        if agreement is None:
            return
        settings = reach.agreed(settings, agreement)
        epoch = fencing.epoch_to_top(
            address,
            settings.serve.fleet,
            settings.data_dir,
            take_over=take_over,
            journal=settings.serve.journal,
            opened=build.reads_retained(settings),
        )
        options = build.ServeOptions(retry, epoch_above=epoch)
        with (
            build.service(
                settings,
                address,
                log,
                os.environ,
                options,
                above=build.SiteStanding(agreement, fleet),
            ) as service,
            serve_cmd.page_beside(settings, log),
        ):
            stopping.then(service.stop)
            service.run()


def _agreement(
    settings: FleetConfig, fleet: FleetAbove, stopping: StopRequest
) -> FleetAgreement | None:
    """What the journal has of it, else what the fleet above announces, however long that takes."""
    from coordinator.errors import NoJournal
    from coordinator.journal.journal import Journal
    from coordinator.relay.agreement import FleetAgreement

    with suppress(NoJournal):
        journal = Journal.read(settings.data_dir, settings.serve.journal)
        try:
            known = FleetAgreement.of_journal(journal)
        finally:
            journal.close()
        if known is not None:
            return known
    return fleet.agreement(lambda: stopping.requested)
