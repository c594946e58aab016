"""Two brokers and a postman between them who cannot be trusted: he repeats, delays and swaps what
he carries.

Devices are at one broker and the coordinator at the other. Everything of QoS 1 arrives at least
once and nothing in particular order; of QoS 0, some is lost. That is what MQTT promises over
reconnects, and a little worse.
"""

from __future__ import annotations

import heapq
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from protofleet.mqtt.address import Address
from protofleet.mqtt.link.events import Arrival
from protofleet.mqtt.link.link import Link, LinkSettings
from protofleet.mqtt.topics import Topics

RETAINED = ("coordinator_state", "round", "shared_state", "own_state", "state")
ALWAYS_IN_ORDER = (
    "coordinator_state",
    "state",
)  # who is there: each end's own last word must stay the last


@dataclass(frozen=True)
class Mischief:
    """How bad the postman is."""

    twice: float = 0.3  # share that is delivered a second time
    late: float = 0.5  # share that is delayed
    longest: float = 0.4  # seconds of delay at most
    lost: float = 0.3  # share of QoS 0 that is lost


@dataclass(order=True)
class _Letter:
    due: float
    number: int
    link: Link = field(compare=False)
    arrival: Arrival = field(compare=False)


class Relay:
    """Carries until stopped."""

    def __init__(
        self, fleet: str, coordinators: Address, devices: Address, how: Mischief, rng: random.Random
    ) -> None:
        self._topics, self._how, self._rng = Topics(fleet), how, rng
        settings = LinkSettings(clean_start=True)
        self._up = Link(coordinators, "postman-up", settings, rng=rng)
        self._down = Link(devices, "postman-down", settings, rng=rng)
        self._letters: list[_Letter] = []
        self._stopping = False
        self.carried = self.repeated = 0
        self._thread = threading.Thread(target=self._run, name="postman", daemon=True)

    def start(self) -> None:
        """Go to work."""
        from_devices = [one for one in self._topics.for_coordinator() if "/d/" in one[0]]
        self._down.subscribe(from_devices)
        own = [
            (topic.replace("/AGENT/", "/+/"), qos)
            for topic, qos in self._topics.for_device("AGENT")
        ]
        self._up.subscribe(own)
        self._up.start()
        self._down.start()
        self._thread.start()

    def stop(self) -> None:
        """No more letters."""
        self._stopping = True
        self._thread.join(10)
        self._up.stop(patience=1.0)
        self._down.stop(patience=1.0)

    def _run(self) -> None:
        number = 0
        while not self._stopping:
            for came, to in ((self._up, self._down), (self._down, self._up)):
                for event in came.poll(0.005):
                    if isinstance(event, Arrival):
                        for due in self._dues(event):
                            number += 1
                            heapq.heappush(self._letters, _Letter(due, number, to, event))
                        came.ack(event)
            while self._letters and self._letters[0].due <= time.monotonic():
                letter = heapq.heappop(self._letters)
                self._deliver(letter)

    def _dues(self, arrival: Arrival) -> list[float]:
        """When to deliver it: never, once or twice, now or later."""
        now, rng, how = time.monotonic(), self._rng, self._how
        place = self._topics.parse(arrival.topic)
        if place is not None and place.kind in ALWAYS_IN_ORDER:
            return [now]
        if arrival.qos == 0 and rng.random() < how.lost:
            return []
        dues = [now + rng.uniform(0, how.longest) if rng.random() < how.late else now]
        if rng.random() < how.twice:
            dues.append(now + rng.uniform(0, how.longest))
            self.repeated += 1
        return dues

    def _deliver(self, letter: _Letter) -> None:
        arrival = letter.arrival
        place = self._topics.parse(arrival.topic)
        retain = place is not None and place.kind in RETAINED
        letter.link.publish(arrival.topic, arrival.payload, qos=arrival.qos, retain=retain)
        self.carried += 1


@contextmanager
def relay(
    fleet: str, coordinators: Address, devices: Address, how: Mischief, rng: random.Random
) -> Iterator[Relay]:
    """For as long as the block lasts."""
    postman = Relay(fleet, coordinators, devices, how, rng)
    postman.start()
    try:
        yield postman
    finally:
        postman.stop()
