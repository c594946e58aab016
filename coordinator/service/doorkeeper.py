"""What a fleet by invitation adds to the service: questions at the door are answered, certificates
renewed, and what a command changed in the registry is taken in.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable
from typing import Any

from coordinator.allowance import Allowance
from coordinator.members.office import Office
from coordinator.members.registry import Registry, RegistryError
from coordinator.members.vault import EVERY
from protofleet.errors import TrustError
from protofleet.mqtt.link.events import Publication
from protofleet.mqtt.topics import TopicParts, Topics
from protofleet.util.logs import Log

LOOK = 1.0  # seconds between looks at the registry: a revocation waits no longer


class Doorkeeper:
    """Answers what is about membership alone; a refusal is an answer, or one line in the log."""

    def __init__(
        self,
        office: Office,
        topics: Topics,
        log: Log,
        allowance: Allowance,
        clock: Callable[[], float],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._changed = changed  # told when a command changed the registry or the fleet's key
        self.office, self._topics, self._log = office, topics, log
        self._allowance, self._clock = allowance, clock
        self._version, self._look_at = office.registry.version, 0.0
        self.revoked = self._revoked()  # whose names nobody has now
        self.vault = office.vault
        self._stamp, self._listed_at = self.vault.stamp, -math.inf
        self._trouble = ""

    def take(self, topic: TopicParts, payload: bytes) -> list[Publication]:
        """The answer to a question, where there is one."""
        # At an open broker anybody may ask in any invitation's name: all of them have one bucket.
        who = topic.agent or "(the door)"
        if not payload or not self._allowance.spend("join", who, self._clock()):
            return []
        try:
            if topic.kind == "renewal":
                name = str(topic.agent)
                renewed = self.office.renew(name, payload)
                return [Publication(self._topics.certificate(name), renewed)]
            (invitation,) = topic.rest
            answer = self.office.answer(invitation, payload)
            self._changed()  # its first word comes at once
        except RegistryError as error:
            self._log.error(f"a question at the door cannot be answered: {error}", of=who)
            return []
        except TrustError as error:
            self._log.warning(f"a question at the door that nobody stands for: {error}", of=who)
            return []
        self._log.info("somebody showed an invitation", invitation=invitation)
        return [Publication(self._topics.answer(invitation), answer)]

    def _revoked(self) -> frozenset[str]:
        members = self.office.registry.members()
        return frozenset(member.name for member in members if member.revoked is not None)

    def members(self) -> list[dict[str, Any]]:
        """Who joined, until when their certificates hold, and who was revoked; any thread may
        ask.
        """
        registry = Registry(self.office.folder / "members.db")
        try:
            return [
                {"name": m.name, "joined": m.joined, "ends": m.ends, "revoked": m.revoked}
                for m in registry.members()
            ]
        finally:
            registry.close()

    def revoke(self, name: str) -> None:
        """As the command does; the registry says nothing of what this process wrote."""
        self.office.revoke(name)
        self.revoked = self._revoked()
        self._changed()

    def greetings(self) -> list[Publication]:
        """The fleet's keys, and the list of its bundles, retained."""
        ring = Publication(self._topics.keys, self.office.signed_ring, retain=True)
        return [ring, *self._list()]

    def _list(self) -> list[Publication]:
        """The list of bundles, said to be the newest from now on."""
        if not self.vault.exists:
            return []
        stamp = self.vault.stamp
        publication = Publication(self._topics.listing, self.vault.publication(), retain=True)
        self._stamp, self._listed_at = stamp, self._clock()
        return [publication]

    def look(self) -> list[Publication]:
        """What a command changed meanwhile, if the fleet is to hear of it."""
        now = self._clock()
        if now < self._look_at:
            return []
        self._look_at = now + LOOK
        try:
            news = self._news(now)
        except (OSError, sqlite3.Error, TrustError) as error:  # a full disk, most often
            if self._trouble != str(error):
                self._log.error(f"the fleet's members and bundles cannot be looked at: {error}")
            self._trouble = str(error)
            return []
        self._trouble = ""
        return news

    def _news(self, now: float) -> list[Publication]:
        rotated, version = self.office.reread(), self.office.registry.version
        if rotated or version != self._version:
            self._version, self.revoked = version, self._revoked()
            self._changed()
        if rotated:
            return self.greetings()
        late = now >= self._listed_at + EVERY
        return self._list() if late or self.vault.stamp != self._stamp else []
