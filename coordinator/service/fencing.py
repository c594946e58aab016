"""Before serving: does another coordinator serve this fleet, and which epoch did the last one
have?
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Container
from dataclasses import dataclass, replace
from pathlib import Path

from coordinator.errors import Superseded
from protofleet import wire
from protofleet.errors import WireError
from protofleet.mqtt.address import Address
from protofleet.mqtt.link.events import Arrival, Connected, Lost, Refused
from protofleet.mqtt.link.link import Link, LinkSettings
from protofleet.mqtt.topics import Topics

PATIENCE = 5.0  # for the broker
SILENCE = 0.5  # for the retained message, once there is a connection
RETURN = 4.0  # for a coordinator to come back that we may have put off the broker ourselves: one user, one connection


@dataclass(frozen=True)
class Sighting:
    """What the last coordinator of the fleet said of itself."""

    epoch: int
    run: str
    boot: str
    online: bool


def epoch_to_top(address: Address, fleet: str, data_dir: Path, *, take_over: bool) -> int:
    """The epoch that a coordinator with this data directory must go beyond; 0 if nobody else ever
    served.

    A broker that cannot be reached now says nothing; the service itself notices another one later.
    """
    own = _own_boots(data_dir)
    seen = look(address, fleet, own)
    if seen is None:
        return 0
    if seen.boot in own:
        return seen.epoch
    if seen.online and not take_over:
        raise Superseded(
            f"a coordinator serves fleet {fleet} already (run {seen.run}, epoch {seen.epoch})",
            "stop it first, or take its place with --take-over",
        )
    return seen.epoch


def look(address: Address, fleet: str, own: Container[str] = ()) -> Sighting | None:
    """The retained word of the fleet's coordinator; one that is off is given time to come back,
    unless it is ours.
    """
    topics = Topics(fleet)
    link = Link(
        address,
        f"{fleet}-lookout-{secrets.token_hex(4)}",
        LinkSettings(clean_start=True, session_expiry=0),
        rng=random.Random(),
    )
    link.subscribe([(topics.coordinator_state, 1)])
    link.start()
    seen: Sighting | None = None
    try:
        until = time.monotonic() + PATIENCE
        while (left := until - time.monotonic()) > 0:
            for event in link.poll(left):
                if isinstance(event, Refused):
                    return None
                if isinstance(event, Lost) and seen is not None:
                    return replace(seen, online=True)  # it came back, and put us off in turn
                if isinstance(event, Connected):
                    until = time.monotonic() + SILENCE
                elif isinstance(event, Arrival) and event.payload:
                    seen = _seen(event.payload)
                    if seen is None or seen.online or seen.boot in own:
                        return seen
                    until = time.monotonic() + RETURN
        return seen
    finally:
        link.stop(patience=1.0)


def _seen(payload: bytes) -> Sighting | None:
    try:
        message = wire.decode(payload)
    except WireError:
        return None
    envelope = message.envelope
    return Sighting(
        envelope.epoch or 0,
        envelope.run or "",
        envelope.boot or "",
        message.body.get("online") is True,
    )


def _own_boots(data_dir: Path) -> set[str]:
    """The boot ids of this journal's earlier lives."""
    import sqlite3

    path = data_dir / "journal.db"
    if not path.exists():
        return set()
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
            row = db.execute("SELECT value FROM meta WHERE key='boots'").fetchone()
    except sqlite3.Error:
        return set()
    return set((row[0] if row else "").split())
