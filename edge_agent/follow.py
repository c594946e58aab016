"""Prototypes that stay fresh: the fleet's retained state on one topic, fetched in pieces where it is large."""

from __future__ import annotations

import os
import random
import secrets
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from edge_agent.inference import Classifier
from edge_agent.latest import arrived, settled
from edge_agent.transfers import Transfers, Whole
from protofleet import wire
from protofleet.errors import FleetError
from protofleet.logs import Log
from protofleet.mqtt.address import Address
from protofleet.mqtt.link import Arrival, Connected, Link, Refused
from protofleet.mqtt.topics import Topics, check_name

FIRST = 5.0  # seconds to wait for the fleet's state before a call that ends falls back to what is at hand
LARGEST = 64 << 20


class Ear:
    """Listens on one topic, in a thread of its own; large states are fetched in pieces."""

    def __init__(self, classifier: Classifier, bundle: Path, link: Link, transfers: Transfers, log: Log) -> None:
        self._classifier, self._bundle, self._link, self._log = classifier, bundle, link, log
        self._transfers = transfers
        self.fresh = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="follow", daemon=True)

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
                        self._log.warning(f"the broker refuses us: {reason}", broker=self._link.address)
            self._transfers.push()

    def _heard(self, topic: str, payload: bytes) -> None:
        place = self._transfers.topics.parse(topic)
        if place is None or not payload:
            return
        try:
            if place.kind == "proto" and wire.unseal(payload)[0].t == "slip":
                whole = self._transfers.slip(place, wire.decode(payload))
            elif place.kind == "proto":
                whole = Whole(place, payload)
            else:
                whole = self._transfers.chunk(place.rest[0], int(place.rest[1]), payload)
        except FleetError as error:
            self._log.warning(f"what came cannot be used: {error}", topic=topic)
            return
        if whole is not None:
            arrived(self._classifier, self._bundle, whole.payload, self._log)
            self.fresh.set()


@contextmanager
def following(
    classifier: Classifier, bundle: Path, url: str, channel: str, fleet: str | None, credentials: Path | None,
    *, wait: bool, log: Log | None = None,
) -> Iterator[None]:  # fmt: skip
    """Keep the classifier's prototypes fresh for as long as the block lasts."""
    log = log or Log(sys.stderr)
    topics = Topics(fleet or classifier.bundle.manifest.fleet)
    address = Address.parse(url, credentials_file=credentials, environ=os.environ)
    name = f"infer-{secrets.token_hex(6)}"
    link = Link(address, name, rng=random.Random(), clean_start=True, session_expiry=0)
    who = address.username or name  # a broker's rules let a device ask for pieces under its own name only
    settled(classifier, bundle)
    with TemporaryDirectory(prefix="protofleet-") as spool:
        transfers = Transfers(topics, who, Path(spool), link, time.monotonic, LARGEST)
        ear = Ear(classifier, bundle, link, transfers, log)
        link.subscribe([(topics.proto(check_name("channel", channel)), 1), (f"{topics.prefix}/d/{who}/blob/+/+", 1)])
        link.start()
        ear.start()
        try:
            if wait and not ear.fresh.wait(FIRST):
                log.warning("the fleet's prototypes did not come in time; those at hand are used", broker=address)
            yield
        finally:
            ear.stop()
            link.stop(patience=1.0)
