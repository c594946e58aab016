"""Links to real brokers, for tests: made quickly, watched with a deadline, stopped whatever
happens.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from protofleet.mqtt.address import Address
from protofleet.mqtt.link.link import Arrival, Connected, Event, Link, LinkSettings
from protofleet.mqtt.link.reconnect import Backoff

# Generous, because the machine may be busy; nothing waits that long when all is well.
DEADLINE = 120.0
# Polled, and left for the next who asks.
UNSEEN: WeakKeyDictionary[Link, deque[Event]] = WeakKeyDictionary()


def link_to(
    address: Address,
    name: str,
    *,
    login: tuple[str, str] | None = None,
    backoff: Backoff = lambda attempt: 0.05,
    clock: Callable[[], float] = time.monotonic,
    **settings: Any,
) -> Link:
    """A link that comes back quickly, not started; `settings` are those of `LinkSettings`."""
    if login is not None:
        address = replace(address, username=login[0], password=login[1])
    rng = random.Random(name)
    return Link(address, name, LinkSettings(**settings), rng=rng, backoff=backoff, clock=clock)


def poll_until(link: Link, enough: Callable[[list[Event]], bool], ack: bool = True) -> list[Event]:
    """Events until there are enough, and not one more; arrivals are acknowledged on the way."""
    events: list[Event] = []
    deadline = time.monotonic() + DEADLINE
    waiting = UNSEEN.setdefault(link, deque())
    while not enough(events):
        if not waiting:
            remaining = deadline - time.monotonic()
            assert remaining > 0, (
                f"still waiting; so far: {[e for e in events if not isinstance(e, Arrival)][-10:]}"
            )
            waiting.extend(link.poll(remaining))
            continue
        event = waiting.popleft()
        events.append(event)
        if ack and isinstance(event, Arrival):
            link.ack(event)
    return events


def poll_for(link: Link, kind: type[Any], count: int = 1, ack: bool = True) -> list[Any]:
    """The events of one kind, once there are so many."""
    events = poll_until(link, lambda polled: sum(isinstance(e, kind) for e in polled) >= count, ack)
    return [event for event in events if isinstance(event, kind)]


def connect(link: Link) -> Connected:
    """Start it and wait until the broker lets it in."""
    link.start()
    return poll_for(link, Connected)[0]


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)
