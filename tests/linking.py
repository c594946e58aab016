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
from protofleet.mqtt.link.link import Arrival, Connected, Event, Link

DEADLINE = (
    20.0  # generous, because the machine may be busy; nothing waits that long when all is well
)
UNSEEN: WeakKeyDictionary[Link, deque[Event]] = (
    WeakKeyDictionary()
)  # polled, and left for the next who asks


def link_to(
    address: Address, name: str, user: str | None = None, password: str | None = None, **how: Any
) -> Link:
    """A link that comes back quickly, not started."""
    if user is not None:
        address = replace(address, username=user, password=password)
    return Link(address, name, rng=random.Random(name), **{"backoff": lambda attempt: 0.05, **how})


def poll_until(link: Link, enough: Callable[[list[Event]], bool], ack: bool = True) -> list[Event]:
    """Events until there are enough, and not one more; arrivals are acknowledged on the way."""
    seen: list[Event] = []
    deadline = time.monotonic() + DEADLINE
    waiting = UNSEEN.setdefault(link, deque())
    while not enough(seen):
        if not waiting:
            left = deadline - time.monotonic()
            assert left > 0, (
                f"still waiting; so far: {[e for e in seen if not isinstance(e, Arrival)][-10:]}"
            )
            waiting.extend(link.poll(left))
            continue
        event = waiting.popleft()
        seen.append(event)
        if ack and isinstance(event, Arrival):
            link.ack(event)
    return seen


def poll_for(link: Link, kind: type[Any], count: int = 1, ack: bool = True) -> list[Any]:
    """The events of one kind, once there are so many."""
    seen = poll_until(link, lambda events: sum(isinstance(e, kind) for e in events) >= count, ack)
    return [event for event in seen if isinstance(event, kind)]


def connect(link: Link) -> Connected:
    """Start it and wait until the broker lets it in."""
    link.start()
    return poll_for(link, Connected)[0]


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)
