"""A member's certificate is renewed before it ends, by the daemon, and taken in while it runs: each
connection reads it anew.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from protofleet.member import join
from protofleet.member.membership import FleetMember
from protofleet.mqtt.topics import Topics
from protofleet.trust import certificates, joining, keys
from protofleet.util.logs import Log

EVERY = 6 * 3600.0  # seconds between attempts, and between looks at the date


class Says(Protocol):
    """Who carries what this device says."""

    def say(self, topic: str, payload: bytes) -> bool: ...


class Renewal:
    """Asks when it is time, and takes the answer; `clock` drives the waits, `wall` the dates."""

    def __init__(
        self,
        member: FleetMember,
        outbound: Says,
        log: Log,
        clock: Callable[[], float],
        wall: Callable[[], datetime],
    ) -> None:
        self._member, self._outbound, self._log = member, outbound, log
        self._clock, self._wall = clock, wall
        self._topics = Topics(member.fleet)
        self._question = b""
        self._next = 0.0

    def look(self, *, connected: bool) -> None:
        """Ask, if it is time."""
        if not connected or self._clock() < self._next:
            return
        self._next = self._clock() + EVERY
        certificate = certificates.of_pem(self._member.certificate)
        if not certificates.is_due(certificate, self._wall()):
            return
        key, name = keys.read(self._member.key), self._member.name
        self._question = certificates.request(key, name)
        self._outbound.say(self._topics.renewal(name), self._question)

    def take_in(self, payload: bytes) -> None:
        """The coordinator's answer; `TrustError` if it is nobody's, or a no."""
        if not self._question:
            return
        member, topic = self._member, self._topics.certificate(self._member.name)
        pinned = certificates.of_pem(member.authority)
        fingerprint = certificates.fingerprint(certificates.as_der(pinned))
        admission = joining.read_answer(payload, fingerprint, topic, self._question)
        own = keys.read(member.key).public_key()
        join.check(admission, own, self._topics, member.name)
        join.write_admission(member, admission)
        self._question = b""
        ends = f"{admission.certificate.not_valid_after_utc:%Y-%m-%d}"
        self._log.info("the certificate was renewed", until=ends)
