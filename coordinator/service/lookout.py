"""Looks after the fleet for its operators: what is wrong now, and an event when that changes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from coordinator.alerts import Alert, DeviceGlance, DiskSpace, Measurement, Situation, alerts, since
from coordinator.core import Core
from coordinator.devices import DeviceRecord
from coordinator.members.office import Office
from coordinator.service.vitals import certificates
from protofleet.errors import TrustError

EVERY = 5.0  # seconds: a look at a thousand devices takes some milliseconds
MEASURED = 8  # newest measurements that are compared
THERE = "alerts"  # what the journal calls those that were written down


class Lookout:
    """`alerts` are replaced and never changed: any thread may read them."""

    def __init__(self, core: Core, office: Office | None, wall: Callable[[], float]) -> None:
        self._core, self._office, self._wall = core, office, wall
        self.alerts: tuple[Alert, ...] = ()
        self._look_at = 0.0
        self._names: tuple[str, ...] | None = None  # as the journal has them

    @property
    def documents(self) -> list[dict[str, Any]]:
        """For programs."""
        return [asdict(alert) for alert in self.alerts]

    def look(self, now: float, *, connected: bool) -> None:
        """If it is time; what is new, and what is over, is written down."""
        if now < self._look_at:
            return
        self._look_at = now + EVERY
        journal = self._core.journal
        if self._names is None:
            self._names = tuple(json.loads(journal.meta(THERE) or "[]"))
        self.alerts = alerts(self.situation(now, connected=connected))
        fresh, over = since(self._names, self.alerts)
        if not fresh and not over:
            return
        names = tuple(alert.key for alert in self.alerts)
        with journal.commit():
            for alert in fresh:
                journal.add_event(
                    "alert",
                    agent=alert.subject,
                    about=alert.kind,
                    sentence=alert.sentence,
                    suggestion=alert.suggestion,
                )
            for name in over:
                about, _, subject = name.partition(" ")
                journal.add_event("alert-over", agent=subject, about=about)
            journal.set_meta(THERE, json.dumps(names))
        self._names = names

    def situation(self, now: float, *, connected: bool) -> Situation:
        """How the fleet stands."""
        core = self._core
        # A coordinator that came up just now, or is cut off, has heard nobody.
        listening = connected
        glances = [self._glance(device, now, listening) for device in core.devices.values()]
        disk = None
        with suppress(OSError):
            usage = shutil.disk_usage(core.journal.directory)
            disk = DiskSpace(usage.free, usage.total)
        book = core.catalogue.book
        return Situation(
            glances,
            connected,
            core.keeper.trouble,
            (*book.pending, *book.waiting),
            self._history(),
            disk,
            self._certificates(),
            self._own_certificates(),
        )

    def _glance(self, device: DeviceRecord, now: float, listening: bool) -> DeviceGlance:
        core, agent = self._core, device.agent
        silent = listening and not device.left and device.gone(now, core.terms.patience)
        drifting = core.keeper.drifts.devices.get(agent)
        refusal = core.intake.counters.newest.get(agent)
        return DeviceGlance(
            agent,
            now - device.seen if silent else None,
            refusal or "",
            device.notice,
            drifting.sentence if drifting is not None and drifting.changed else "",
            tuple(pair.sentence for pair in core.keeper.comparisons.suspects.get(agent, ())),
            agent in core.keeper.version.doubted,
        )

    def _history(self) -> list[Measurement]:
        rows = self._core.journal.history("measured", last=MEASURED)
        return [one for row in rows if (one := measurement(row)) is not None]

    def _certificates(self) -> list[tuple[str, float]]:
        if self._office is None:
            return []
        now = self._wall()
        try:
            members = self._office.registry.members()
        except TrustError:  # its disk is full, or its file damaged: that is said elsewhere
            return []
        return [(m.name, m.ends - now) for m in members if m.revoked is None and m.ends]

    def _own_certificates(self) -> list[tuple[str, float]]:
        if self._office is None:
            return []
        now = self._wall()
        return [(name, end - now) for name, end in certificates(self._office.folder).items()]


def measurement(event: dict[str, Any]) -> Measurement | None:
    """What an event says of accuracy, by the measure that is the run's first."""
    accuracy = event.get("accuracy")
    if not isinstance(accuracy, dict) or not accuracy:
        return None
    first = "test" if "test" in accuracy else next(iter(accuracy))
    # Rounds do not say of how many samples; a hundred is few enough to be careful.
    return Measurement(float(accuracy[first]), int(event.get("held_out", 100)))
