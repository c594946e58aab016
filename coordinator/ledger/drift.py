"""Which devices see something else than they did: what they report of their newest samples, beside
what is usual in this fleet.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from coordinator.ledger.versions import CountTotal, LedgerVersion
from protofleet.errors import SettingError
from protofleet.settings.fields import from_plain
from protofleet.statistics.drift import (
    DriftReport,
    UsualShare,
    exceeds,
    share_outside,
    usual_share,
)

NOTED_EVERY = 3600.0  # seconds between two events of one device
CAUSES = "dirty lens, other light or view, or things nobody has labelled"


@dataclass(frozen=True)
class DeviceDrift:
    """One device's report, and what was made of it."""

    agent: str
    report: DriftReport
    usual: UsualShare
    unknown: bool = False  # more is unknown than is usual
    moved: bool = False  # and samples lie elsewhere

    @property
    def changed(self) -> bool:
        """Whether a person should look."""
        return self.unknown or self.moved

    @property
    def sentence(self) -> str:
        """For people."""
        shares = f"{100 * self.report.unknown:.0f} % look like nothing the fleet knows"
        usual = f"where {100 * self.usual.share:.0f} % is usual"
        distance = f"{self.report.distance or 0.0:.2f} standard deviations"
        words = [f"{shares}, {usual}"] * self.unknown
        words += [f"on average they lie {distance} from those it labelled"] * self.moved
        if not self.changed:
            return f"{self.agent}: its pictures are as usual: {shares}, {usual}"
        return f"{self.agent}: its pictures have changed: {'; '.join(words)} ({CAUSES})"

    @property
    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "agent": self.agent,
            "samples": self.report.samples,
            "unknown": self.report.unknown,
            "usual": self.usual.share,
            "distance": self.report.distance,
            "changed": self.changed,
            "sentence": self.sentence,
        }


@dataclass(frozen=True)
class Drifts:
    """Of all devices that reported: the newest, who was written down as changed, and when."""

    devices: Mapping[str, DeviceDrift] = field(default_factory=dict)
    noted: frozenset[str] = frozenset()
    noted_at: Mapping[str, float] = field(default_factory=dict)

    def plus(self, fresh: DeviceDrift) -> Drifts:
        """With this one's newest."""
        return replace(self, devices={**self.devices, fresh.agent: fresh})

    def without(self, agent: str) -> Drifts:
        """Nothing is known of this device."""
        return Drifts(
            {name: device for name, device in self.devices.items() if name != agent},
            self.noted - {agent},
            {name: at for name, at in self.noted_at.items() if name != agent},
        )

    def is_news(self, agent: str, now: float) -> bool:
        """Whether it changed, or changed back, since that was written down; a device that goes to
        and fro is written down now and then.
        """
        turned = self.devices[agent].changed != (agent in self.noted)
        return turned and now - self.noted_at.get(agent, -NOTED_EVERY) >= NOTED_EVERY

    def noting(self, agent: str, now: float) -> Drifts:
        """It is written down as it is."""
        noted = self.noted | {agent} if self.devices[agent].changed else self.noted - {agent}
        return replace(self, noted=noted, noted_at={**self.noted_at, agent: now})

    @property
    def all(self) -> list[DeviceDrift]:
        """By device, those that changed first."""
        return sorted(self.devices.values(), key=lambda one: (not one.changed, one.agent))

    @property
    def as_text(self) -> str:
        """What outlives the process."""
        return json.dumps(sorted(self.noted))

    @staticmethod
    def of_text(text: str) -> Drifts:
        """And back: numbers come with the next reports."""
        return Drifts(noted=frozenset(json.loads(text or "[]")))


def read(document: object, lineage: str) -> DriftReport | None:
    """What a device sent, checked; nothing where it is of another extractor."""
    if not isinstance(document, Mapping) or document.get("lineage") != lineage:
        return None
    numbers = {name: number for name, number in document.items() if name != "lineage"}
    try:
        return from_plain(DriftReport, numbers, "drift")
    except SettingError:
        return None


def counted_shares(version: LedgerVersion, tally: CountTotal) -> dict[str, tuple[float, int]]:
    """Which share of its own samples each device that counted has beyond the fleet's threshold; of
    those alone whose counts are used, as they say what is usual for the others, too.
    """
    whole = version.knowledge
    if whole is None or whole.calibration.usual is None:
        return {}
    used = {
        agent: own for agent, (_, own) in tally.counts.items() if agent not in version.uncounted
    }
    counts = {agent: own for agent, own in used.items() if own.samples}
    usual = whole.calibration.usual
    return {
        agent: (share_outside(own.at(whole.choice).odd, usual), own.samples)
        for agent, own in counts.items()
    }


def judged(
    agent: str, report: DriftReport, promised: float, shares: Mapping[str, tuple[float, int]]
) -> DeviceDrift:
    """By what is usual; where nobody counted nothing was promised."""
    usual = usual_share(promised, shares, agent)
    unknown, moved = exceeds(report, usual)
    return DeviceDrift(agent, report, usual, unknown and bool(shares), moved)
