"""`edge-agent run`: the daemon."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from edge_agent.cli.common import device_options, settings


@click.command()
@device_options
@click.option(
    "--retry", is_flag=True, help="Keep trying even where the broker refuses this device."
)
def run(file: Path | None, retry: bool, **flags: Any) -> None:
    """Join the fleet, train when asked, deliver, and go on until stopped.

    A broker that cannot be reached is waited for; SIGTERM or Ctrl-C ends it within seconds, and
    nothing is lost.
    """
    from edge_agent.daemon import start

    start.run(settings(file, flags), os.environ, retry=retry)
