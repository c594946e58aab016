"""A page's process: where it listens, how much it takes at a time, and how it ends."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path

import uvicorn

from protofleet.errors import FleetError, SettingError
from protofleet.pages.guard import App
from protofleet.pages.passkey import FILE, passkey_of
from protofleet.pages.visitors import Policy
from protofleet.settings.page import ListenAddress, PageSection

CONNECTIONS = 128  # at a time; what is more is answered with 503
HEAD = 16_384  # bytes of a request before its body
KEEP_ALIVE, END = 5, 2  # seconds
NICE = 10  # whatever it is asked, the service that it speaks for goes first


def policy_of(section: PageSection, directory: Path, name: str) -> tuple[Policy, bool]:
    """What the settings come to, and whether the token was made just now."""
    for proxy in section.proxies:
        try:
            ip_address(proxy)
        except ValueError:
            raise SettingError(f"page.proxies: {proxy!r} is no address") from None
    address = ListenAddress.parse(section.listen)
    passkey, fresh = passkey_of(directory)
    policy = Policy(
        passkey,
        # Behind a proxy everybody comes from this machine.
        address.is_local and not section.proxies,
        frozenset(name.lower() for name in section.names),
        frozenset(section.proxies),
        section.user_header.lower(),
        f"protofleet-{name}-{address.port}",
    )
    return policy, fresh


def greeting(url: str, policy: Policy, directory: Path, fresh: bool) -> str:
    """What its owner is told: the token once, and then where it is."""
    if fresh:
        return f"page at {url}#token={policy.passkey.token} (once; then see {directory / FILE})"
    return f"page at {url} (its token is in {directory / FILE})"


def serve(app: App, address: ListenAddress, say: Callable[[str], None]) -> None:
    """Until a signal ends it. `say` is given the page's URL when it listens."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        listener = socket.create_server((address.host, address.port), family=family, backlog=64)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FleetError(f"no page at {address.host}:{address.port}: {reason}") from None
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # whose word counts is `visitors`'
        server_header=False,
        limit_concurrency=CONNECTIONS,
        h11_max_incomplete_event_size=HEAD,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=END,
    )
    # It raises the signal that ended it once more when it is done; that is no error of ours.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    say(address.url(listener.getsockname()[1]))
    uvicorn.Server(config).run(sockets=[listener])


def behind_a_service() -> None:
    """For a page that a service started: never in its way, and no longer there than it is."""
    os.nice(NICE)

    def watch() -> None:
        # Ends when the service does, however it ends. Past Python's buffer, whose lock this thread
        # would still hold where a signal ends the process.
        while os.read(sys.stdin.fileno(), 4096):
            pass
        os._exit(0)

    threading.Thread(target=watch, name="service", daemon=True).start()
