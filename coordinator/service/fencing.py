"""Before serving: does another coordinator serve this fleet, and which epoch did the last one
have?
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from pathlib import Path

from coordinator.errors import JournalError, NoJournal, Superseded
from coordinator.journal.database import address_of
from coordinator.journal.journal import Journal
from protofleet import wire
from protofleet.errors import WireError
from protofleet.mqtt.address import Address
from protofleet.mqtt.link.events import Arrival, Connected, Lost, Refused
from protofleet.mqtt.link.link import Link, LinkSettings
from protofleet.mqtt.topics import Topics
from protofleet.wire import epochs

# Theory of operation
#
# Two coordinators of one fleet would each open rounds, and devices would answer now one and now the
# other. Nothing here can make that impossible, as there is only the broker between them; it is made
# short. Every life has an epoch, one above the highest it has ever heard of, and devices follow the
# highest epoch they hear. Whoever meets a higher one stops (`coordinator.service.loop`).
#
# The word that tells is retained at the broker: `coordinator_state`, with epoch, boot id, and
# whether its coordinator is online (its last will says that it is not). Before a life begins:
#
#   the retained word                     what follows
#   none, or no broker within PATIENCE    begin; another one that is there is noticed while serving
#   of an earlier life of this journal    begin above its epoch, whatever it says: the lock on the
#                                         directory, or of the journal's server, tells better
#                                         whether it lives
#   of another, offline                   wait RETURN for it to come back, then begin above it
#   of another, online                    stop, unless told to take over
#   of an epoch that nobody can have      as if there were none: it is written over
#
# Why wait for one that says it is offline: brokers that tell clients apart by user allow a user one
# connection, and ours ends the other's. Its will is then the word we find. It connects again within
# RETURN, which in turn ends our connection: so losing it, too, means that the other is alive.

PATIENCE = 5.0  # for the broker
SILENCE = 0.5  # for the retained message, once there is a connection
RETURN = 4.0  # for a coordinator to come back that we may have put off the broker


@dataclass(frozen=True)
class Sighting:
    """What the last coordinator of the fleet said of itself."""

    epoch: int
    run: str
    boot: str
    online: bool


def epoch_to_top(
    address: Address,
    fleet: str,
    data_dir: Path,
    *,
    take_over: bool,
    journal: str = "",
    opened: Callable[[bytes], bytes | None] = lambda payload: payload,
) -> int:
    """The epoch that a coordinator with this data directory must go beyond; 0 if nobody else ever
    served. `journal` is its server's address, where it has one.

    Where words are signed, `opened` says which may be believed.

    A broker that cannot be reached now says nothing; the service itself notices another one later.
    """
    own, epoch = _own_lives(data_dir, journal)
    last = look(address, fleet, own, opened)
    if last is None or not epochs.is_credible(last.epoch, epoch):
        return 0
    if last.boot not in own and last.online and not take_over:
        raise Superseded(
            f"a coordinator serves fleet {fleet} already (run {last.run}, epoch {last.epoch})",
            "stop it first, or take its place with --take-over",
        )
    return last.epoch


def look(
    address: Address,
    fleet: str,
    own: Container[str] = (),
    opened: Callable[[bytes], bytes | None] = lambda payload: payload,
) -> Sighting | None:
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
    sighting: Sighting | None = None
    try:
        until = time.monotonic() + PATIENCE
        while (remaining := until - time.monotonic()) > 0:
            for event in link.poll(remaining):
                if isinstance(event, Refused):
                    return None
                if isinstance(event, Lost) and sighting is not None:
                    return replace(sighting, online=True)  # it came back, and put us off in turn
                if isinstance(event, Connected):
                    until = time.monotonic() + SILENCE
                elif isinstance(event, Arrival) and event.payload:
                    sighting = _sighting(opened(event.payload) or b"")
                    if sighting is None or sighting.online or sighting.boot in own:
                        return sighting
                    until = time.monotonic() + RETURN
        return sighting
    finally:
        link.stop(patience=1.0)


def _sighting(payload: bytes) -> Sighting | None:
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


def _own_lives(data_dir: Path, address: str) -> tuple[set[str], int]:
    """The boot ids of this journal's earlier lives, and the last one's epoch; -1 if there is
    none.
    """
    try:
        journal = Journal.read(data_dir, address)
    except JournalError as error:
        # A server that does not answer may hold lives of ours; of a file that is no journal the
        # opening will say so.
        if (address or address_of(data_dir)) and not isinstance(error, NoJournal):
            raise
        return set(), -1
    try:
        epoch = int(journal.meta("epoch") or -1)
        # Below the bounds that there are now, a journal may hold anything.
        return set((journal.meta("boots") or "").split()), epoch if epochs.is_sound(epoch) else -1
    except JournalError:  # of a life that ended before its first commit
        return set(), -1
    finally:
        journal.close()
