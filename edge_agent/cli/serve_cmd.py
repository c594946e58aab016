"""`edge-agent serve`: the device's page, in a process of its own."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from edge_agent.cli.common import device_options, settings
from protofleet.errors import FleetError

LISTEN = "127.0.0.1:8322"


@click.command()
@device_options
@click.option("--http", default="", help=f"Where it listens; as [page] listen, else {LISTEN}.")
@click.option("--beside", is_flag=True, hidden=True, help="A daemon started it: end with that.")
def serve(file: Path | None, http: str, beside: bool, **flags: Any) -> None:
    """A page for the owner of this device: what it sees, and what to name.

    \b
    edge-agent serve --config agent.toml        http://127.0.0.1:8322
    edge-agent serve --http 0.0.0.0:8322        for a phone, with the page's token

    It stands beside a running daemon (`edge-agent run`), which takes up what is named. Pictures
    stay on this device. With `[page] listen` in agent.toml the daemon starts it by itself.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from protofleet.util.extras import check_installed

    check_installed("starlette", "page", "pages")
    from edge_agent.metrics.standing import not_ready
    from edge_agent.page.owner import owner_site
    from edge_agent.recent.queue import RecentBounds, agree
    from protofleet.pages.server import behind_a_service, greeting, policy_of
    from protofleet.pages.server import serve as serve_page
    from protofleet.pages.site import application
    from protofleet.settings.page import ListenAddress

    config = settings(file, flags)
    if beside:
        behind_a_service()
    page = replace(config.page, listen=http or config.page.listen or LISTEN)
    source = Path(config.album)
    if source.exists() and not source.is_dir():
        raise FleetError(
            f"data.source {source} is no folder: what is named cannot become a sample of it",
            "[data] source of a folder, or none",
        )
    policy, fresh = policy_of(page, config.data_dir, config.id)
    bounds = RecentBounds.of(config.recent)
    agree(config.data_dir / "fleet.pfb", bounds)
    owners = owner_site(config.id, config.data_dir / "fleet.pfb", source, bounds)
    site = replace(owners, ready=lambda: not_ready(config.data_dir) or owners.ready())
    if find_spec("prometheus_client") is not None:
        from edge_agent.metrics.scrape import scraped
        from protofleet.metrics.route import metrics_route

        metrics = metrics_route(lambda: scraped(config.data_dir))
        site = replace(site, routes=[*site.routes, metrics])

    def say(url: str) -> None:
        click.echo(greeting(url, policy, config.data_dir, fresh), err=True)
        sys.stderr.flush()

    serve_page(application(site, policy), ListenAddress.parse(page.listen), say)
