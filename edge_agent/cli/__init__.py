"""`edge-agent`: the commands of a device, one file each."""

from __future__ import annotations

from importlib.metadata import entry_points

import click

import protofleet
from edge_agent.cli.config_cmd import config
from edge_agent.cli.contract_cmd import contract
from edge_agent.cli.enroll_cmd import enroll, forget
from edge_agent.cli.infer_cmd import infer
from edge_agent.cli.init_cmd import init
from edge_agent.cli.join_cmd import join
from edge_agent.cli.run_cmd import run as run_command
from edge_agent.cli.serve_cmd import serve
from edge_agent.cli.status_cmd import status
from edge_agent.cli.summarise_cmd import summarise
from edge_agent.cli.trial_cmd import trial
from edge_agent.cli.unknowns_cmd import unknowns
from edge_agent.cli.watch_cmd import watch
from protofleet.cli.main import run


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(protofleet.__version__, prog_name="edge-agent")
def agent() -> None:
    """What runs on a device of a live fleet.

    \b
    edge-agent init --fleet orchard --data ./photos     write agent.toml
    edge-agent config check                             is it right?
    edge-agent join TOKEN                               be a member, by invitation
    edge-agent run --config agent.toml                  join, train, deliver, until stopped
    edge-agent status                                   how it is getting on
    edge-agent infer --bundle B photos/                 classify photos with what the fleet learned
    edge-agent watch --bundle B rtsp://camera/stream    say what a camera sees
    edge-agent enroll --bundle B --label owl *.jpg      a new class from a few photos
    edge-agent serve                                    a page to name what it saw
    edge-agent unknowns --bundle B                      what it saw and knew no class for
    """


for command in (
    init,
    join,
    run_command,
    status,
    config,
    contract,
    infer,
    watch,
    enroll,
    forget,
    unknowns,
    serve,
    summarise,
    trial,
):
    agent.add_command(command)


# Making bundles needs more than a device that only classifies has: the command comes from the room
# that can.
for point in entry_points(group="edge_agent.commands"):
    agent.add_command(point.load())


def main() -> None:
    """The console command."""
    run(agent, "edge-agent")
