"""What passes between a link and one of its connections: what all of them share, what is wanted,
and how one ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from protofleet.mqtt.address import Address
from protofleet.mqtt.link.client import ClientSettings
from protofleet.mqtt.link.events import Token
from protofleet.mqtt.link.inbox import Inbox
from protofleet.mqtt.link.outbox import Outbox
from protofleet.mqtt.link.waker import Waker


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

    # Appending to a deque and taking from it are single steps of the interpreter, and `filters` is
    # replaced whole, never changed in place: so no lock.
    filters: dict[str, int]  # every subscription, asked for anew on each connection
    fresh: deque[tuple[str, int]]  # those that came while there was a connection
    acks: deque[Token]
    close_by: float | None = None  # set once: deliver what waits until then, and end


@dataclass(frozen=True)
class LinkParts:
    """What outlives a connection: the link's own, lent to one connection after the other."""

    settings: ClientSettings
    commands: Commands
    inbox: Inbox
    outbox: Outbox
    waker: Waker
    clock: Callable[[], float]


def unanswered(address: Address, reason: str) -> LinkEnded:
    """A broker that hung up before it let us in."""
    guess = "; it may want a client certificate" if address.tls and address.cert is None else ""
    return LinkEnded(f"the broker hung up before it answered: {reason}{guess}", early=True)
