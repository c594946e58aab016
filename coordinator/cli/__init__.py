"""`coordinator`: the commands of what runs once per fleet, one file each."""

from __future__ import annotations

import click

import protofleet
from coordinator.cli.classes_cmd import classes
from coordinator.cli.forget_cmd import forget
from coordinator.cli.freeze_cmd import freeze
from coordinator.cli.journal_cmd import backup, compact, limits, replay
from coordinator.cli.live_cmd import agents, pause, publish, resume, rounds, show, status, stop
from coordinator.cli.members_cmd import audit, devices, invite, keys, revoke
from coordinator.cli.relay_cmd import relay
from coordinator.cli.rollout_cmd import rollout
from coordinator.cli.serve_cmd import init, serve
from coordinator.cli.web_cmd import web
from protofleet.cli.main import run


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(protofleet.__version__, prog_name="coordinator")
def coordinator() -> None:
    """What runs once per fleet.

    \b
    edge-agent contract --data ./photos >> fleet.toml   what the fleet agrees on, read off some data
    coordinator serve --config fleet.toml               take in what devices say, fuse, publish
    coordinator relay --up mqtts://head:8883 --name n   the same for one site of a larger fleet
    coordinator status --watch                          how it is getting on
    coordinator web                                     the same in a browser, and to steer by
    coordinator rollout start X.pfb --groups 5%,100%    a new bundle, a few devices first
    coordinator replay coordinator-data                 compute every state again and compare hashes
    """


for command in (
    init,
    serve,
    relay,
    web,
    status,
    agents,
    rounds,
    show,
    classes,
    freeze,
    rollout,
    forget,
    publish,
    pause,
    resume,
    stop,
    replay,
    compact,
    backup,
    limits,
    invite,
    devices,
    revoke,
    audit,
    keys,
):
    coordinator.add_command(command)


def main() -> None:
    """The console command."""
    run(coordinator, "coordinator")
