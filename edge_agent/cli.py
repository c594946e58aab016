"""`edge-agent`: the commands of a device."""

from __future__ import annotations

import click

import protofleet
from protofleet.cli.main import run


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(protofleet.__version__, prog_name="edge-agent")
def agent() -> None:
    """What runs on a device of a live fleet.

    The daemon (join a broker, train, upload, follow the fleet's prototypes) is not part of this release yet; the same
    recipes and the same trainer run in the laboratory: `protofleet simulate --help`.
    """


def main() -> None:
    """The console command."""
    run(agent, "edge-agent")
