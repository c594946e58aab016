"""`coordinator`: the commands of what runs once per fleet."""

from __future__ import annotations

import click

import protofleet
from protofleet.cli.main import run


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(protofleet.__version__, prog_name="coordinator")
def coordinator() -> None:
    """What runs once per fleet.

    The service (rounds over a broker, journal, admission) is not part of this release yet; the same fusion runs in the
    laboratory: `protofleet simulate --help`.
    """


def main() -> None:
    """The console command."""
    run(coordinator, "coordinator")
