"""Prototypes that stay fresh: a channel's retained state, and the bundle it names, fetched in
pieces where large.
"""

from __future__ import annotations

import random
import secrets
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from edge_agent.daemon.transfers import Blob, Transfers
from edge_agent.inference.classifier import Classifier
from edge_agent.updates.cache import settled
from edge_agent.updates.fetch import Fetch
from edge_agent.updates.switch import BundleSwitch
from protofleet import wire
from protofleet.errors import FleetError
from protofleet.exchange.archive import LARGEST_PARCEL
from protofleet.mqtt.address import Address
from protofleet.mqtt.link.link import Arrival, Connected, Link, LinkSettings, Refused
from protofleet.mqtt.topics import TopicParts, Topics, check_name
from protofleet.util.logs import Log

FIRST = 5.0  # seconds to wait for the fleet's state before a call that ends falls back to what is at hand
FETCHING = 300.0  # for a bundle that it takes to use them


class ChannelListener:
    """Listens to one channel, in a thread of its own; what is large is fetched in pieces."""

    def __init__(
        self, succession: BundleSwitch, link: Link, transfers: Transfers, log: Log
    ) -> None:
        self._succession, self._link, self._log = succession, link, log
        self._transfers = transfers
        self.fresh = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="follow", daemon=True)

    def wait(self) -> bool:
        """Whether the fleet's word came in time; a bundle that is on its way gets longer."""
        if self.fresh.wait(FIRST):
            return True
        return self._succession.fetching and self.fresh.wait(FETCHING)

    def start(self) -> None:
        """Listen until `stop`."""
        self._thread.start()

    def stop(self) -> None:
        """Listen no more."""
        self._stop.set()
        self._link.wake()
        self._thread.join(3.0)

    def _listen(self) -> None:
        while not self._stop.is_set():
            due = self._transfers.due
            wait = 1.0 if due is None else min(1.0, max(0.0, due - time.monotonic()))
            for event in self._link.poll(wait):
                match event:
                    case Connected():
                        self._transfers.connected()
                    case Arrival(topic, payload):
                        self._heard(topic, payload)
                        self._link.ack(event)
                    case Refused(reason):
                        self._log.warning(
                            f"the broker refuses us: {reason}", broker=self._link.address
                        )
            self._transfers.push()

    def _heard(self, topic: str, payload: bytes) -> None:
        place = self._transfers.topics.parse(topic)
        if place is None:
            return
        try:
            if self._came(place, payload):
                self.fresh.set()
        except FleetError as error:
            self._log.warning(f"what came cannot be used: {error}", topic=topic)

    def _came(self, place: TopicParts, payload: bytes) -> bool:
        if place.kind == "bundle":
            return self._succession.announced(place, payload)
        if place.kind == "own_chunk":
            whole = self._transfers.chunk(place.rest[0], int(place.rest[1]), payload)
        elif not payload:
            return False  # an empty payload takes a retained message back
        elif wire.unseal(payload)[0].t == "slip":
            whole = self._transfers.slip(place, wire.decode(payload))
        else:
            whole = Blob(place, payload)
        if whole is None:
            return False
        return (
            self._succession.whole(whole.payload)
            if whole.place.kind == "bundle"
            else self._succession.state(whole.payload)
        )


@contextmanager
def following(
    classifier: Classifier,
    bundle: Path,
    address: Address,
    channel: str,
    fleet: str | None,
    *,
    wait: bool,
    fetch: bool = True,
    log: Log | None = None,
) -> Iterator[None]:
    """Keep the classifier up with a channel for as long as the block lasts; with `fetch` to other
    bundles, too.
    """
    log = log or Log(sys.stderr)
    topics = Topics(fleet or classifier.bundle.manifest.fleet)
    name = f"infer-{secrets.token_hex(6)}"
    settings = LinkSettings(clean_start=True, session_expiry=0)
    link = Link(address, name, settings, rng=random.Random())
    who = (
        address.username or name
    )  # a broker's rules let a device ask for pieces under its own name only
    settled(classifier, bundle)
    with TemporaryDirectory(prefix="protofleet-") as spool:
        transfers = Transfers(topics, who, Path(spool), link, time.monotonic, LARGEST_PARCEL)
        succession = BundleSwitch(classifier, bundle, Fetch(transfers) if fetch else None, log)
        ear = ChannelListener(succession, link, transfers, log)
        heard = (
            topics.bundle(check_name("channel", channel)),
            topics.proto(channel),
            f"{topics.prefix}/d/{who}/blob/+/+",
        )
        link.subscribe([(topic, 1) for topic in heard])
        link.start()
        ear.start()
        try:
            if wait and not ear.wait():
                log.warning(
                    "the fleet's prototypes did not come in time; those at hand are used",
                    broker=address,
                )
            yield
        finally:
            ear.stop()
            link.stop(patience=1.0)
