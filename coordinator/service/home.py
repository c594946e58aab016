"""Home Assistant and the fleet as a whole: the coordinator's own entities, and what it takes back
of devices that were forgotten or revoked.

What a device makes known of itself is the device's (`edge_agent.daemon.home`). One that was turned
away cannot take it back any more, and the coordinator does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from protofleet.errors import LinkBusy
from protofleet.homeassistant import discovery
from protofleet.homeassistant.discovery import COORDINATOR, HomeDevice
from protofleet.mqtt.link.events import Publication
from protofleet.mqtt.topics import Topics
from protofleet.settings.home import HomeSection

EVERY = 5.0  # seconds between two words of how the fleet is getting on
MOST = 20  # sentences of alerts

Say = Callable[[Publication], None]  # may raise `LinkBusy`
Document = Mapping[str, Any]


class FleetHome:
    """`say` publishes as it is: nobody in a home could hold a signature to anything."""

    def __init__(
        self, section: HomeSection, topics: Topics, say: Say, clock: Callable[[], float]
    ) -> None:
        self._section, self._topics, self._say, self._clock = section, topics, say, clock
        self._said: Document = {}
        self._say_at = 0.0
        self._due: list[Publication] = []
        self._turned_away: frozenset[str] = frozenset()

    def connected(self) -> None:
        """All of it anew: brokers forget."""
        self._said, self._say_at, self._due = {}, 0.0, []
        self._turned_away = frozenset()
        if self._section.discovery:
            section, presence = self._section, self._topics.coordinator_state
            device = HomeDevice(
                self._topics.fleet, COORDINATOR, "fleet", presence, section.area, section.page
            )
            every = discovery.of_fleet(self._topics)
            self._due += discovery.discovered(device, every, section.prefix)

    def forget(self, agent: str) -> None:
        """Nothing of this device stays in anybody's home."""
        self._due += discovery.forgotten(self._topics, agent, self._section.prefix)

    def turned_away(self, agents: Iterable[str]) -> None:
        """These are members no more; what is new among them is taken back."""
        now = frozenset(agents)
        for agent in sorted(now - self._turned_away):
            self.forget(agent)
        self._turned_away = now

    def look(self, status: Callable[[], Document]) -> None:
        """Say what is due; `status` is asked for only if something may be."""
        with suppress(LinkBusy):
            while self._due:
                self._say(self._due[0])
                del self._due[0]
            if self._section.discovery and self._clock() >= self._say_at:
                self._say_at = self._clock() + EVERY
                news = shown(status())
                if news != self._said:
                    data = json.dumps(news, separators=(",", ":")).encode()
                    self._say(Publication(self._topics.fleet_home, data, 1, True))
                    self._said = news


def shown(status: Document) -> dict[str, Any]:
    """The fleet in a few numbers: what is surest of its accuracies, who is there, what is wrong."""
    held_out = (status.get("vitals") or {}).get("held_out") or {}
    reported = status.get("accuracy") or {}
    accuracy = held_out.get("accuracy")
    if accuracy is None:
        accuracy = max(reported.values(), default=None)
    ledger = status.get("ledger") or {}
    alerts = status.get("alerts") or []
    return {
        "accuracy": None if accuracy is None else round(accuracy, 3),
        "online": status["agents_online"],
        "gone": status["agents_gone"],
        "devices": status["agents_known"],
        "classes": ledger.get("classes"),
        "samples": ledger.get("samples"),
        "alerts": [str(alert["sentence"])[:200] for alert in alerts[:MOST]],
    }
