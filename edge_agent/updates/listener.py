"""Prototypes that stay fresh: a channel's retained state, and the bundle it names, fetched in
chunks where large.
"""

from __future__ import annotations

import random
import secrets
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from edge_agent.inference.classifier import Classifier
from edge_agent.updates.cache import settled
from edge_agent.updates.fetch import Fetch
from edge_agent.updates.switch import BundleSwitch
from protofleet import wire
from protofleet.errors import FleetError
from protofleet.exchange.archive import LARGEST_BUNDLE
from protofleet.member import membership
from protofleet.member.sealed_link import SealedLink, sealed_link
from protofleet.mqtt.address import Address
from protofleet.mqtt.blobs.receiver import Blob, BlobReceiver, device_receiver
from protofleet.mqtt.link.link import Arrival, Connected, LinkSettings, Refused
from protofleet.mqtt.topics import TopicParts, Topics, check_name
from protofleet.trust.listing import BundleList
from protofleet.trust.sequence import CLASSIFIER
from protofleet.util.logs import Log

# Seconds to wait for the fleet's state before a call that ends falls back to what is at hand.
FIRST = 5.0
FETCHING = 300.0  # for a bundle that it takes to use them


class ChannelListener:
    """Listens to one channel, in a thread of its own; what is large is fetched in chunks."""

    def __init__(
        self,
        switch: BundleSwitch,
        link: SealedLink,
        receiver: BlobReceiver,
        topics: Topics,
        log: Log,
    ) -> None:
        self._switch, self._link, self._receiver = switch, link, receiver
        self._topics, self._log = topics, log
        self.fresh = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="follow", daemon=True)

    def wait(self) -> bool:
        """Whether the fleet's word came in time; a bundle that is on its way gets longer."""
        if self.fresh.wait(FIRST):
            return True
        return self._switch.fetching and self.fresh.wait(FETCHING)

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
            ask_at = self._receiver.due
            wait = 1.0 if ask_at is None else min(1.0, max(0.0, ask_at - time.monotonic()))
            for event in self._link.poll(wait):
                match event:
                    case Connected():
                        self._receiver.connected()
                    case Arrival(topic, payload):
                        self._receive(topic, payload)
                        self._link.ack(event)
                    case Refused(reason):
                        self._log.warning(
                            f"the broker refuses us: {reason}", broker=self._link.address
                        )
            self._receiver.ask_due()

    def _receive(self, topic: str, payload: bytes) -> None:
        parts = self._topics.parse(topic)
        if parts is None:
            return
        try:
            if self._take_in(parts, payload):
                self.fresh.set()
        except Exception as error:  # a thread that ends would never hear of anything better
            words = str(error) if isinstance(error, FleetError) else f"{error!r}"
            self._log.warning(f"what came cannot be used: {words[:300]}", topic=topic)

    def _take_in(self, parts: TopicParts, payload: bytes) -> bool:
        """Whether this is the fleet's word: what it says is in use, or cannot be."""
        if parts.kind == "listing":
            return bool(payload) and self._switch.listing(payload)
        if parts.kind == "bundle":
            return self._switch.announced(parts, payload)
        if parts.kind == "own_chunk":
            blob = self._receiver.chunk(parts, payload)
        elif not payload:
            return False  # an empty payload takes a retained message back
        elif wire.unseal(payload)[0].t == "slip":
            blob = self._receiver.announce(parts, wire.decode(payload))
        else:
            blob = Blob(parts, payload)
        if blob is None:
            return False
        if blob.file is not None:
            return self._switch.whole(blob.file)
        return self._switch.state(blob.payload)


@dataclass(frozen=True)
class Channel:
    """Which channel of which fleet, and at which broker; without a fleet the bundle's own."""

    broker: Address
    name: str
    fleet: str | None = None


@contextmanager
def following(
    classifier: Classifier,
    bundle: Path,
    channel: Channel,
    *,
    wait: bool,
    fetch: bool = True,
    log: Log | None = None,
) -> Iterator[None]:
    """Keep the classifier up with a channel for as long as the block lasts; with `fetch` to other
    bundles, too.
    """
    log = log or Log(sys.stderr)
    address = channel.broker
    topics = Topics(channel.fleet or classifier.bundle.manifest.fleet)
    name = f"infer-{secrets.token_hex(6)}"
    settings = LinkSettings(clean_start=True, session_expiry=0)
    member = membership.of_address(address)
    link = sealed_link(address, name, settings, (member, CLASSIFIER), log, random.Random())
    # A broker's rules let a device ask for chunks under its own name only.
    agent = member.name if member is not None else address.username or name
    settled(classifier, bundle)
    with TemporaryDirectory(prefix="protofleet-") as folder:
        receiver = device_receiver(
            topics, agent, Path(folder), link, time.monotonic, LARGEST_BUNDLE
        )
        listing = None if member is None else BundleList(member.listing(CLASSIFIER))
        listed = None if listing is None else listing.check
        fetching = Fetch(receiver, listed) if fetch else None
        switch = BundleSwitch(classifier, bundle, fetching, log, listing)
        listener = ChannelListener(switch, link, receiver, topics, log)
        channel_topics = (
            topics.bundle(check_name("channel", channel.name)),
            topics.proto(channel.name),
            f"{topics.prefix}/d/{agent}/blob/+/+",
        )
        link.subscribe([(topic, 1) for topic in channel_topics])
        link.start()
        listener.start()
        try:
            if wait and not listener.wait():
                log.warning(
                    "the fleet's prototypes did not come in time; those at hand are used",
                    broker=address,
                )
            yield
        finally:
            listener.stop()
            link.stop(patience=1.0)
