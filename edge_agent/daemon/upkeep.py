"""What changes for a device without a message: the hour, the disk, the day's bytes, its samples, an
idle process.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime

from edge_agent.config import Config
from edge_agent.daemon.policy import TrafficToday, allowed
from edge_agent.data import watch
from edge_agent.protocol.events import OwnerLimits
from edge_agent.recent.labelling import tapped_file
from edge_agent.store import Store
from edge_agent.worker.supervisor import Supervisor
from protofleet.util.logs import Log

NOTE_EVERY = 60.0  # seconds: a commit for every payload would wear out a flash card
AFTER_A_TAP = 3.0  # seconds
PATIENCE = 10.0  # seconds to hear from a coordinator before the silence is remarked upon


class TrafficAccount:
    """The day's payload bytes, noted down every minute."""

    def __init__(self, store: Store, today: Callable[[], date]) -> None:
        self._store, self._today = store, today
        # Survives a restart: else a device that starts over and over spends without bound.
        day, _, count = (store.noted("spent") or "").partition(" ")
        same = day == today().isoformat() and count.isdigit()
        self.spent = self._noted = TrafficToday(today(), int(count) if same else 0)
        self._noted_at = float("-inf")
        self.total = 0  # since this process began

    def count(self, bytes: int) -> None:
        """So many more crossed the link."""
        self.total += bytes
        self.spent = self.spent.add(bytes, self._today())

    def note(self, now: float, *, at_once: bool = False) -> None:
        """Write it down, if that is due."""
        if self.spent != self._noted and (at_once or now - self._noted_at > NOTE_EVERY):
            self._noted, self._noted_at = self.spent, now
            self._store.note(spent=f"{self.spent.day.isoformat()} {self.spent.bytes}")


class SampleWatch:
    """Notices new samples once they have stopped coming; those that were named on the device's page
    a moment after the last tap.
    """

    def __init__(self, config: Config, now: float) -> None:
        self._config, self._at = config.data, now
        self._tapped_file = tapped_file(config.data_dir / "fleet.pfb")
        self._tapped, self._tapped_at = self._tap, 0.0
        # Stamps of the source: when its samples were counted last, and at the last look.
        self._counted = self._latest = watch.stamp(config.data)

    def changed(self, now: float) -> bool:
        """Whether they did since the last time they were taken in."""
        if self._tapped != (tap := self._tap):
            self._tapped, self._tapped_at = tap, now
        elif self._tapped_at and now - self._tapped_at >= AFTER_A_TAP:
            # Photos are put there whole, one by one: nothing has to settle. The pause is for who
            # takes a tap back at once: what was never said need not be taken out again.
            self._at, self._tapped_at, before = now, 0.0, self._counted
            self._counted = self._latest = watch.stamp(self._config)
            return self._counted != before
        every = self._config.watch_seconds
        if not every or now - self._at < every:
            return False
        self._at = now
        stamp = watch.stamp(self._config)
        # A folder that somebody is copying into differs at every look: only one that is the same
        # at two looks in a row is worth counting.
        settled = stamp == self._latest
        self._latest = stamp
        if stamp == self._counted or not settled:
            return False
        self._counted = stamp
        return True

    @property
    def _tap(self) -> int:
        try:
            return self._tapped_file.stat().st_mtime_ns
        except OSError:
            return 0


class CoordinatorWatch:
    """Remarks once when no coordinator speaks for a while after a connection."""

    def __init__(self, fleet: str, log: Log) -> None:
        self._fleet, self._log = fleet, log
        self._since: float | None = None

    def begins(self, now: float) -> None:
        """From here on somebody ought to speak."""
        self._since = now

    def ends(self) -> None:
        """Somebody spoke, or nobody can be heard."""
        self._since = None

    def look(self, now: float) -> None:
        """Called often."""
        if self._since is not None and now - self._since > PATIENCE:
            self._since = None
            self._log.warning(
                f"no coordinator speaks in fleet {self._fleet!r} yet: is it running, "
                "and is [fleet] name right?"
            )


class IdleWatch:
    """Ends a training process that has nothing to do."""

    def __init__(self, supervisor: Supervisor, after: float, now: float) -> None:
        self._supervisor, self._after, self._since = supervisor, after, now

    def look(self, busy: bool, now: float) -> None:
        """Called often."""
        if busy:
            self._since = now
        elif self._supervisor.pid is not None and now - self._since > self._after:
            self._supervisor.dismiss()


def limits(
    config: Config, account: TrafficAccount, before: OwnerLimits, now: datetime, log: Log
) -> OwnerLimits:
    """What the owner allows now; a change is said."""
    after = allowed(config.limits, config.data_dir, account.spent, now)
    if after.refusal != before.refusal:
        log.info(f"it may not train: {after.refusal}" if after.refusal else "it may train again")
    return after
