"""What passes between a link and its owner: values only, so that either side can be tested with
made-up ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition
from typing import NamedTuple


@dataclass(frozen=True)
class Will:
    """What the broker says for us when the connection is lost."""

    topic: str
    payload: bytes
    qos: int = 1
    retain: bool = True


MEGABYTE = 2**20


@dataclass(frozen=True)
class LinkSettings:
    """How a link holds its connection; where it goes and under which name is said apart."""

    will: Will | Callable[[], Will] | None = None  # one that is made anew for each connection
    keepalive: int = 30  # seconds
    session_expiry: int = 86400  # seconds for which the broker keeps what we miss
    clean_start: bool = False  # of the first connection only: later ones go on with its session
    receive_maximum: int = 256  # arrivals that the broker sends ahead of our acknowledgements
    max_packet: int = 16 * MEGABYTE
    answer: float = 5.0  # seconds; a broker silent for longer is taken to know 3.1.1 only
    queue_most: int = 10_000  # publications that wait to be sent
    queue_bytes: int = 64 * MEGABYTE


class Publication(NamedTuple):
    """Something to publish, as `Link.stop` takes its farewells."""

    topic: str
    payload: bytes
    qos: int = 1
    retain: bool = False


class Token(NamedTuple):
    """Which delivery to acknowledge: packet ids mean something on one connection only."""

    connection: int
    packet: int


@dataclass(frozen=True)
class Connected:
    """The broker let us in; subscriptions are already asked for. `protocol` is "5" or "3.1.1";
    `shares`: whether it deals a subscription out among several.
    """

    session_present: bool
    protocol: str
    shares: bool = False


@dataclass(frozen=True)
class Lost:
    """No connection, with the reason; the link keeps trying."""

    reason: str


@dataclass(frozen=True)
class Refused:
    """The broker (or the check of its certificate) said no, which waiting will not mend; the link
    keeps trying.
    """

    reason: str


ANOTHER = "another process may use this name or login"  # in a reason: connections end too soon
NOT_ALLOWED = "not authorized"  # in a reason of the broker's: its access rules say no


@dataclass(frozen=True)
class Denied:
    """One subscription or publication the broker does not allow on this connection."""

    topic: str
    reason: str


class Arrival(NamedTuple):
    """A message. QoS 1 is delivered again after a reconnect until `Link.ack`; `token` is None for
    QoS 0.
    """

    # A tuple, as everything here that is made once a message: a frozen dataclass costs five times
    # as much to make.

    topic: str
    payload: bytes
    qos: int
    retained: bool
    token: Token | None
    correlation: bytes | None = None


class Ticket:
    """What became of a publication: `done` once nothing more will happen to it, `refused` if it was
    in vain.
    """

    __slots__ = ("_awaited", "_condition", "done", "refused")

    def __init__(self, condition: Condition) -> None:
        self._condition = condition
        self._awaited = False
        self.done = False
        self.refused: str | None = None

    def wait(self, timeout: float) -> bool:
        """Whether it was done within `timeout` seconds."""
        self._awaited = True
        with self._condition:
            return self._condition.wait_for(lambda: self.done, timeout)

    def settle(self, refused: str | None) -> None:
        """Called by the link, once."""
        # `refused` before `done`: whoever sees that it is done may read why.
        self.refused = refused
        self.done = True
        # Hardly anybody waits for a ticket, so the condition, which all tickets share, is left
        # alone unless somebody does. Who asks to wait after this line sees that it is done.
        if self._awaited:
            with self._condition:
                self._condition.notify_all()


@dataclass(frozen=True)
class Delivered:
    """A publication made with `tell=True` is done."""

    ticket: Ticket


def is_taken_over(reason: str) -> bool:
    """Whether a connection seems to have ended because somebody came under the same client id, in
    the broker's words or in ours for those that say none.
    """
    return "session taken over" in reason.lower() or ANOTHER in reason


Event = Connected | Lost | Refused | Denied | Arrival | Delivered
