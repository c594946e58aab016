"""`coordinator web`: the operator's page beside a running coordinator."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import click

from coordinator.cli.live_cmd import place
from coordinator.config import DEFAULT, page_of
from protofleet.errors import UsageError

LISTEN = "127.0.0.1:8321"


@click.command()
@click.option("--config", type=click.Path(path_type=Path), help="By default ./fleet.toml.")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    envvar="PROTOFLEET_SERVE_DATA_DIR",
    help="The running coordinator's. By default as the settings have it.",
)
@click.option("--http", default="", help=f"Where it listens. By default {LISTEN}.")
@click.option("--name", "names", multiple=True, help="A name that browsers call it by.")
@click.option("--proxy", "proxies", multiple=True, help="A reverse proxy's address.")
@click.option("--user-header", default="", help="In which it names the user.")
@click.option("--child", is_flag=True, hidden=True)
def web(
    config: Path | None,
    data_dir: Path | None,
    http: str,
    names: tuple[str, ...],
    proxies: tuple[str, ...],
    user_header: str,
    child: bool,
) -> None:
    """Serve the operator's page: who is there, what the fleet knows, what is wrong, what to do.

    \b
    coordinator web                                  on this machine, at http://127.0.0.1:8321/
    coordinator serve --http 127.0.0.1:8321          the same, started and kept by the service
    coordinator web --http 0.0.0.0:8321 --name fleet.example --proxy 10.0.0.1

    Looking is free on this machine. Steering takes the token that is printed at the first start and
    kept in the data directory (page.token), or a user that a reverse proxy names (--proxy). The
    page asks the coordinator by its socket alone: it may end at any time, and rounds go on.
    """
    from coordinator.web.console import site
    from protofleet.pages.server import behind_a_service, greeting, policy_of, serve
    from protofleet.pages.site import application
    from protofleet.settings.page import ListenAddress

    directory = place(config, data_dir)
    if not directory.is_dir():
        raise UsageError(f"{directory} is no coordinator's directory", "`coordinator serve` is one")
    file = DEFAULT if config is None and DEFAULT.exists() else config
    section = page_of(file, os.environ)
    section = replace(
        section,
        listen=http or section.listen or LISTEN,
        names=names or section.names,
        proxies=proxies or section.proxies,
        user_header=user_header or section.user_header,
    )
    policy, fresh = policy_of(section, directory, "operator")
    if child:
        behind_a_service()
    serve(
        application(site(directory), policy),
        ListenAddress.parse(section.listen),
        lambda url: click.echo(greeting(url, policy, directory, fresh), err=True),
    )
