"""A site's upper half without a broker: a link that a test fills and reads."""

import io
import time
from threading import Condition

from coordinator.relay.agreement import FleetAgreement
from coordinator.relay.site import SiteRelay, SiteTerms
from coordinator.relay.uplink import Uplink
from protofleet import wire
from protofleet.mqtt.link.events import Arrival, Connected, Ticket
from protofleet.util.logs import Log
from tests.coordinator.made import TOPICS, agreed, ledger


class HandLink:
    """What was said on it; a broker that takes everything at once."""

    address = "mqtt://above"

    def __init__(self):
        self.connected, self.said, self.acked = True, [], []
        self.events, self.filters, self.farewell = [Connected(False, "5")], [], []

    def start(self):
        pass

    def stop(self, farewell=(), patience=5.0):
        self.farewell = list(farewell)

    def subscribe(self, filters):
        self.filters += filters

    def poll(self, timeout):
        events, self.events = self.events, []
        return events

    def ack(self, *arrivals):
        self.acked += arrivals

    def publish(self, topic, payload, *, qos=1, retain=False, tell=False):
        self.said.append((topic, payload))
        ticket = Ticket(Condition())
        ticket.done = True
        return ticket

    def hear(self, *messages):
        """These arrive with the next poll."""
        self.events += [Arrival(topic, payload, 1, True, None) for topic, payload in messages]

    def taken(self):
        """What was said since the last time."""
        said, self.said = self.said, []
        return said


class HandSite:
    """A site's core and relay; `above` is a core whose words are carried to it by hand."""

    def __init__(self, folder, above, made=None, **more):
        self.above = above
        self.core = made or agreed(ledger(folder, **more))
        self.link, self.lines = HandLink(), io.StringIO()
        log = Log(self.lines)
        self.uplink = Uplink(
            self.link, TOPICS, "north", folder / "spool-above", log, time.monotonic
        )
        agreement = FleetAgreement.of(wire.decode(self._word("/g/round")))
        self.terms = SiteTerms("orchard", "north", "boot-n", agreement, folder)
        self.relay = SiteRelay(self.core, self.uplink, self.terms, log)
        self.relay.recover()
        self.relay.start()

    def _word(self, ending):
        (payload,) = [p.payload for p in self.above.greetings() if p.topic.endswith(ending)]
        return payload

    def greet(self):
        """All that the fleet above retains is heard."""
        self.link.hear(*((p.topic, p.payload) for p in self.above.greetings()))

    def turn(self, now):
        """One turn; what of it is for the fleet above is carried there, and its answer back."""
        said = self.relay.look(now)
        uploads = []
        for topic, payload in self.link.taken():
            place = TOPICS.parse(topic)
            uploads += [place.kind]
            answers = self.above.take([(place, payload)], now)
            self.link.hear(
                *((p.topic, p.payload) for p in answers if TOPICS.parse(p.topic).agent == "north")
            )
        return said, uploads
