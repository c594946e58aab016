"""Answers to a broker of the owner's, as plain JSON on a topic a camera and region."""

from __future__ import annotations

import json
from contextlib import suppress

from edge_agent.cameras.saying.answers import place_of
from edge_agent.cameras.saying.outlets import Unsaid, Unwelcome
from protofleet.errors import LinkBusy, SettingError
from protofleet.mqtt.link.events import Denied, Refused, Ticket
from protofleet.mqtt.link.link import Link
from protofleet.util.logs import Log

PATIENCE = 10.0  # seconds for the broker's word that it has an answer


class BrokerSender:
    """`TOPIC/CAMERA` or `TOPIC/CAMERA.REGION`, retained or not, each until the broker has it."""

    def __init__(self, link: Link, topic: str, *, retain: bool, log: Log) -> None:
        if not topic or any(c in topic for c in "+#\0") or topic.startswith(("/", "$")):
            raise SettingError(f"topic {topic!r} cannot be used", "write it like home/cameras")
        self._link, self._topic, self._retain, self._log = link, topic.rstrip("/"), retain, log
        self._under_way: tuple[str, Ticket] | None = None
        link.start()

    def send(self, line: str) -> None:
        """One at a time, so that the last one that is retained is the newest."""
        self.idle()
        if self._under_way is None or self._under_way[0] != line:
            if not self._link.connected:
                raise Unsaid(f"no connection to {self._link.address}")
            document = json.loads(line)
            place = place_of(document["camera"], document["region"])
            try:
                ticket = self._link.publish(
                    f"{self._topic}/{place}", line.encode(), retain=self._retain
                )
            except LinkBusy as error:
                raise Unsaid(str(error)) from None
            self._under_way = (line, ticket)
        ticket = self._under_way[1]
        if not ticket.wait(PATIENCE):
            raise Unsaid(f"{self._link.address} does not answer")
        self._under_way = None
        if ticket.refused is not None:
            raise Unwelcome(f"{self._link.address}: {ticket.refused}")

    def idle(self) -> None:
        """What the broker says otherwise."""
        for event in self._link.poll(0.0):
            if isinstance(event, Refused):
                self._log.warning(
                    f"the broker refuses us: {event.reason}", broker=self._link.address
                )
            elif isinstance(event, Denied):
                self._log.warning(f"the broker does not allow {event.topic}: {event.reason}")

    def close(self) -> None:
        """Disconnect."""
        with suppress(OSError):
            self._link.stop(patience=1.0)
