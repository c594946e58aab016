"""Home Assistant and this device: what is discovered of it, what is shown, and the buttons that
may be pressed there.
"""

# Theory of operation
#
# Everything goes over the daemon's own connection: a login is one connection, and a second one
# would push the first out.
#
#   when                              what is said
#   connected                         all entities, retained; the buttons' topics are subscribed to
#   the device's state changed        `d/{id}/home`, retained, once in EVERY seconds at most
#   an answer was left (`sight`)      `d/{id}/sight`, retained; the picture where that is wished
#   connected, and discovery is off   if it was on before (noted in the store): empty retained
#                                     words, so that Home Assistant forgets the device
#
# A press is a word of somebody whom the broker let write there (`protofleet.mqtt.broker.mosquitto`:
# the user `homeassistant`, and the coordinator). It carries nothing but itself, and is taken if it
# is exactly PRESS, was not retained (it would be pressed anew with every connection), and is not
# one too many: a button has BURST presses and gets one back in REFILL seconds. What is refused is
# one line in the log, and once a kind.

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from edge_agent.config import Config
from edge_agent.daemon.outbound import Outbound
from edge_agent.daemon.status import Status
from edge_agent.recent import poster
from edge_agent.recent.labelling import Labelling
from edge_agent.store import Store
from edge_agent.updates import sight
from edge_agent.updates.sight import Sight
from protofleet.errors import FleetError
from protofleet.homeassistant import discovery
from protofleet.homeassistant.discovery import Entity, HomeDevice
from protofleet.mqtt.link.events import Publication
from protofleet.util.logs import Log

LOOK = 1.0  # seconds between looks for an answer
PICTURES = 5.0  # seconds between two pictures
EVERY = 5.0  # seconds between two words of how the device is getting on
BURST, REFILL = 5.0, 2.0
NOTED = "homeassistant"  # the prefix under which this device was made known
NONE = "none"  # a bundle, where there is none
COARSE = 100_000  # bytes: saying how many there were makes more of them

Buttons = Mapping[str, Callable[[], str]]  # each answers with what came of it, for the log


class HomeNews:
    """`buttons` is what each of them does."""

    def __init__(
        self,
        config: Config,
        outbound: Outbound,
        store: Store,
        log: Log,
        clock: Callable[[], float],
        buttons: Buttons,
    ) -> None:
        self._config, self._outbound, self._store = config, outbound, store
        self._log, self._clock, self._buttons = log, clock, dict(buttons)
        # What is named becomes a photo: there must be a folder that photos are learned from.
        source = Path(config.data.source)
        if config.data.source and source.is_dir():
            self._buttons["confirm"] = lambda: self._confirm(source)
        self._said: dict[str, Any] = {}
        self._say_at, self._announced = 0.0, False
        self._bundle = config.data_dir / "fleet.pfb"
        self._stamp, self._shown = 0, Sight()  # of the answer that was shown last, and itself
        self._poster, self._poster_at = 0, 0.0  # the picture that was shown last, and when the next
        self._tokens = dict.fromkeys(self._buttons, (BURST, 0.0))
        self._remarked: set[str] = set()
        self.enabled = config.homeassistant.discovery
        if self.enabled and not discovery.fits(config.id):
            self.enabled = False
            log.warning(
                f"Home Assistant takes no device of the name {config.id!r}:"
                " letters, digits, '_' and '-' only"
            )

    @property
    def filters(self) -> list[tuple[str, int]]:
        """What is subscribed to."""
        topics = self._outbound.topics
        return topics.for_home(self._config.id) if self.enabled else []

    def connected(self) -> None:
        """A broker that forgot is told anew."""
        self._announced, self._said, self._say_at = False, {}, 0.0
        self._stamp = self._poster = 0

    def due(self) -> float:
        """When to look again; never, if nothing is shown."""
        return self._clock() + LOOK if self.enabled else float("inf")

    def look(self, status: Status, *, may_send: bool, counted: bool = True) -> None:
        """Say what is due; without how many samples there are, unless these may be `counted`."""
        if not may_send:
            return
        if not self._announced:
            self._announced = self._all_said(self._announcement())
        if self.enabled and self._announced:
            self._show_answer()
            self._show_picture()
            if self._clock() >= self._say_at:
                self._show_state(shown(status, counted=counted))

    def _show_state(self, news: dict[str, Any]) -> None:
        topic = self._outbound.topics.home(self._config.id)
        if news != self._said and self._say(Publication(topic, _json(news), 1, True)):
            self._said, self._say_at = news, self._clock() + EVERY

    def _show_answer(self) -> None:
        stamp = 0
        with suppress(OSError):
            stamp = sight.sight_file(self._bundle).stat().st_mtime_ns
        if stamp in (0, self._stamp):
            return
        outlook, topics = sight.read(self._bundle), self._outbound.topics
        if outlook is None or not outlook.newest.at:
            return
        document = _json(sight.shown(outlook.newest))
        if self._say(Publication(topics.sighting(self._config.id), document, 1, True)):
            self._stamp, self._shown = stamp, outlook.newest

    def _show_picture(self) -> None:
        if not self._config.homeassistant.pictures or self._clock() < self._poster_at:
            return
        stamp, topic = poster.stamp(self._bundle), self._outbound.topics.picture(self._config.id)
        picture = poster.read(self._bundle) if stamp not in (0, self._poster) else b""
        if picture and self._say(Publication(topic, picture, 1, True)):
            self._poster, self._poster_at = stamp, self._clock() + PICTURES

    def _confirm(self, source: Path) -> str:
        """The answer that was shown is right: its picture becomes a sample."""
        sight = self._shown
        if sight.unknown or not sight.label:
            return "there is no answer to confirm"
        if not sight.key:
            return f"{sight.label}: its picture was not kept, as the fleet is sure of it"
        try:
            more = Labelling(self._bundle, source).label([sight.key], sight.label)
        except (FleetError, OSError) as error:
            return f"{sight.label}: {error}"
        return f"{sight.label}: {'one more sample' if more else 'it was named already'}"

    def press(self, button: str, payload: bytes, *, retained: bool) -> None:
        """Somebody pressed a button, or says so."""
        refusal = self._refusal(button, payload, retained)
        if refusal:
            if refusal not in self._remarked:
                self._remarked.add(refusal)
                self._log.warning(f"a press that means nothing here: {refusal}")
            return
        self._log.info(f"pressed in Home Assistant: {self._buttons[button]()}", button=button)

    def _refusal(self, button: str, payload: bytes, retained: bool) -> str:
        if not self.enabled or button not in self._buttons:
            return "there is no such button"
        if retained:
            return "it was retained"
        if payload != discovery.PRESS.encode():
            return "it says something else than PRESS"
        tokens, since = self._tokens[button]
        now = self._clock()
        tokens = min(BURST, tokens + (now - since) / REFILL)
        self._tokens[button] = (tokens - 1 if tokens >= 1 else tokens), now
        return "" if tokens >= 1 else "too many of them"

    def _announcement(self) -> list[Publication]:
        """All entities; or that there are none, where there were some before."""
        config, topics, home = self._config, self._outbound.topics, self._config.homeassistant
        every = discovery.of_device(topics, config.id)
        before = self._store.noted(NOTED) or ""
        said: list[Publication] = []
        if before and not (self.enabled and before == home.prefix):
            said += discovery.forgotten(topics, config.id, before)
        poster.wish(self._bundle, self.enabled and home.pictures)
        if self.enabled:
            self._store.note(**{NOTED: home.prefix})
            model = "edge device"
            device = HomeDevice(
                topics.fleet, config.id, model, topics.state(config.id), home.area, home.page
            )
            hidden = [entity for entity in every if not self._shows(entity)]
            said += discovery.removed(config.id, hidden, home.prefix)
            if not home.pictures:
                said.append(Publication(topics.picture(config.id), b"", 1, True))
            shown_ones = [entity for entity in every if self._shows(entity)]
            said += discovery.discovered(device, shown_ones, home.prefix)
        return said

    def _shows(self, entity: Entity) -> bool:
        if entity.component == "button":
            return entity.name in self._buttons
        return entity.name != "picture" or self._config.homeassistant.pictures

    def _all_said(self, publications: list[Publication]) -> bool:
        said = all(self._say(publication) for publication in publications)
        if said and not self.enabled and self._store.noted(NOTED):
            self._store.note(**{NOTED: ""})
        return said

    def _say(self, publication: Publication) -> bool:
        return self._outbound.say(
            publication.topic, publication.payload, qos=publication.qos, retain=publication.retain
        )


def shown(status: Status, *, counted: bool = True) -> dict[str, Any]:
    """How a device is getting on, for a home: little, and only what changes seldom."""
    return {
        "doing": status.doing,
        "bundle": status.bundle[:12] or NONE,
        "newest": (status.newest or status.bundle)[:12] or NONE,
        "samples": status.samples if counted else None,
        "classes": len(status.classes) if counted else None,
        "bytes_today": status.bytes_today // COARSE * COARSE,
        "trouble": [status.refusal[:200]] if status.refusal else [],
    }


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
