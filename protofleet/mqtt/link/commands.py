"""What passes between a link and one of its connections: what is wanted, and how it ended."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from protofleet.mqtt.link.client import ClientSettings
from protofleet.mqtt.link.events import Token


@dataclass(frozen=True)
class LinkEnded:
    """How a connection ended. `greeted` is when the broker let us in, if it did."""

    reason: str
    greeted: float | None = None
    early: bool = False  # no answer, or that this version is not spoken: worth trying the other
    refused: bool = False


@dataclass
class Commands:
    """What the owner of the link wants; written by any thread, carried out by the connection's."""

    filters: dict[str, int]
    fresh: deque[tuple[str, int]]
    acks: deque[Token]
    close_by: float | None = None  # set once: deliver what waits until then, and end


def unanswered(setup: ClientSettings, reason: str) -> LinkEnded:
    """A broker that hung up before it let us in."""
    guess = (
        "; it may want a client certificate"
        if setup.address.tls and setup.address.cert is None
        else ""
    )
    return LinkEnded(f"the broker hung up before it answered: {reason}{guess}", early=True)
