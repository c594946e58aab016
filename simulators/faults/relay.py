"""Two brokers and an untrustworthy carrier between them: it repeats, delays and swaps messages.

Devices are at one broker and the coordinator at the other. Everything of QoS 1 arrives at least
once and nothing in particular order; of QoS 0, some is lost. That is what MQTT promises over
reconnects, and a little worse.
"""

# Theory of operation
#
#     devices --- their broker --- carrier --- its broker --- coordinator
#
# MQTT promises delivery at least once for QoS 1 and at most once for QoS 0, and order only within
# one connection of one client. Real brokers over healthy lines do much better, so what breaks the
# promise's letter is never met in a test. The carrier makes it common:
#
#     message           is
#     QoS 0             lost by a share
#     QoS 1             delivered once or twice, each time now or a little later
#     who is there      delivered once and at once (ALWAYS_IN_ORDER)
#
# Being there is left alone because it is retained: the last word of a device about itself must
# stay the last. A broker guarantees that to a client's own publications; between two brokers only
# the carrier can.
#
# The carrier acknowledges a message when it has it, not when it was delivered. Should the process
# die, messages would be lost; it lives as long as its case. Retained topics keep their flag,
# otherwise a device that subscribes later would wait for a state that was only passed by.

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
class DeliveryFaults:
    """How unfaithful the carrier is."""

    twice: float = 0.3  # share that is delivered a second time
    late: float = 0.5  # share that is delayed
    longest: float = 0.4  # seconds of delay at most
    lost: float = 0.3  # share of QoS 0 that is lost


@dataclass(order=True)
class _Delivery:
    at: float  # by the monotonic clock
    number: int
    link: Link = field(compare=False)
    arrival: Arrival = field(compare=False)


class Relay:
    """Carries until stopped."""

    def __init__(
        self,
        fleet: str,
        coordinators: Address,
        devices: Address,
        how: DeliveryFaults,
        rng: random.Random,
    ) -> None:
        self._topics, self._how, self._rng = Topics(fleet), how, rng
        settings = LinkSettings(clean_start=True)
        self._up = Link(coordinators, "postman-up", settings, rng=rng)
        self._down = Link(devices, "postman-down", settings, rng=rng)
        self._deliveries: list[_Delivery] = []
        self._stopping = False
        self.carried = self.repeated = 0
        self._thread = threading.Thread(target=self._run, name="postman", daemon=True)

    def start(self) -> None:
        """Go to work."""
        from_devices = [
            (topic, qos) for topic, qos in self._topics.for_coordinator() if "/d/" in topic
        ]
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
        """No more deliveries."""
        self._stopping = True
        self._thread.join(10)
        self._up.stop(patience=1.0)
        self._down.stop(patience=1.0)

    def _run(self) -> None:
        number = 0
        while not self._stopping:
            for source, target in ((self._up, self._down), (self._down, self._up)):
                for event in source.poll(0.005):
                    if isinstance(event, Arrival):
                        for at in self._times(event):
                            number += 1
                            heapq.heappush(self._deliveries, _Delivery(at, number, target, event))
                        source.ack(event)
            while self._deliveries and self._deliveries[0].at <= time.monotonic():
                delivery = heapq.heappop(self._deliveries)
                self._deliver(delivery)

    def _times(self, arrival: Arrival) -> list[float]:
        """When to deliver it: never, once or twice, now or later."""
        now, rng, how = time.monotonic(), self._rng, self._how
        topic = self._topics.parse(arrival.topic)
        if topic is not None and topic.kind in ALWAYS_IN_ORDER:
            return [now]
        if arrival.qos == 0 and rng.random() < how.lost:
            return []
        times = [now + rng.uniform(0, how.longest) if rng.random() < how.late else now]
        if rng.random() < how.twice:
            times.append(now + rng.uniform(0, how.longest))
            self.repeated += 1
        return times

    def _deliver(self, delivery: _Delivery) -> None:
        arrival = delivery.arrival
        topic = self._topics.parse(arrival.topic)
        retain = topic is not None and topic.kind in RETAINED
        delivery.link.publish(arrival.topic, arrival.payload, qos=arrival.qos, retain=retain)
        self.carried += 1


@contextmanager
def relay(
    fleet: str, coordinators: Address, devices: Address, how: DeliveryFaults, rng: random.Random
) -> Iterator[Relay]:
    """For as long as the block lasts."""
    carrier = Relay(fleet, coordinators, devices, how, rng)
    carrier.start()
    try:
        yield carrier
    finally:
        carrier.stop()
