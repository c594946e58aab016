"""Who belongs to the fleet and who is there: births, last wills and signs of life, as plain
values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from coordinator.shelves import Shelves

# Theory of operation
#
# A birth is retained and a last will may be lost with its broker, so what they say of a device is
# not enough: one whose password changed is "online" for ever. What counts is when it was last
# heard, whatever it said. One that was asked and has not been heard since owes an answer; after
# `silence` seconds it is as gone as one whose will came `lost` seconds ago: no round waits for it,
# none asks it again, until it says anything at all. One that is not asked may be silent for days.

# What is kept of a birth, and what it must be; the texts in it are short by the wire's limits.
ABOUT = {
    "version": str,
    "wire": list,
    "backbone": str,
    "device": str,
    "samples": int,
    "site": bool,  # a coordinator that speaks for devices of its own
}
MOST_CLASSES = 1024  # names that are kept of one device
LONGEST_WORDS = 250  # of what a device says of itself


@dataclass(frozen=True)
class Patience:
    """Seconds until a device counts as gone: after its last will, and after it was asked."""

    lost: float
    silence: float


@dataclass(frozen=True)
class DeviceRecord:
    """One device as the coordinator knows it; times are by the coordinator's own clock."""

    agent: str
    boot: str = ""
    online: bool = False
    left: bool = False
    seen: float = 0.0
    asked: float = -math.inf  # when it was first asked since it was last heard
    epoch: int = 0  # of the coordinator that it follows
    about: Mapping[str, Any] = field(default_factory=dict)  # of its birth, what ABOUT names
    round: int | None = None  # the last one it reported on
    accuracy: Mapping[str, float] = field(default_factory=dict)
    declines: str = ""  # why it does not train just now
    notice: str = ""  # what it leaves out, or cannot use

    @property
    def is_site(self) -> bool:
        """Whether it is no device but the coordinator of some."""
        return self.about.get("site") is True

    def gone(self, now: float, patience: Patience) -> bool:
        """Whether nobody need wait for it."""
        if self.left:
            return True
        if not self.online:
            return now - self.seen >= patience.lost
        return self.asked >= self.seen and now - self.asked >= patience.silence


Devices = Shelves[str, DeviceRecord]
NOBODY: Devices = Shelves()


def from_births(births: Mapping[str, Mapping[str, Any]], now: float) -> Devices:
    """Devices as the journal remembers them, none of them heard of yet."""
    return Shelves(
        {
            agent: DeviceRecord(
                agent, left=birth.get("left") is True, seen=now, about=_about(birth)
            )
            for agent, birth in births.items()
        }
    )


def with_birth(
    devices: Devices,
    agent: str,
    boot: str,
    body: Mapping[str, Any],
    now: float,
    epoch: int = 0,
) -> Devices:
    """A birth or a death; a death of an earlier life than the one that is known says nothing."""
    before = devices.get(agent, DeviceRecord(agent))
    if body.get("online") is True:
        born = replace(before, boot=boot, online=True, left=False, seen=now, epoch=epoch)
        return devices.plus({agent: replace(born, about=_about(body), declines="")})
    # The broker sends the will of a connection that it gave up, and that may be after the device
    # is back with a new one. A device from the journal has no boot id yet: any death is its own.
    if agent not in devices or (before.boot and boot != before.boot):
        return devices
    # One that leaves for good says so; what a will speaks for is expected back.
    leaves = body.get("reason") == "left"
    gone = replace(before, boot=boot, online=False, left=leaves, seen=now)
    return devices.plus({agent: gone})


def alive(devices: Devices, agent: str, now: float, **changes: Any) -> Devices:
    """A sign of life of a registered device, and what else it says of itself."""
    device = devices.get(agent)
    if device is None:
        return devices
    return devices.plus({agent: replace(device, seen=now, online=not device.left, **changes)})


def all_alive(devices: Devices, agents: Iterable[str], now: float) -> Devices:
    """Signs of life of many at once."""
    alive = {
        agent: replace(devices[agent], seen=now, online=not devices[agent].left)
        for agent in agents
        if agent in devices
    }
    return devices.plus(alive) if alive else devices


def all_asked(devices: Devices, agents: Iterable[str], now: float) -> Devices:
    """These are asked now; who owes an answer already goes on owing it since then."""
    known = (devices[agent] for agent in agents if agent in devices)
    asked = {d.agent: replace(d, asked=now) for d in known if d.asked < d.seen}
    return devices.plus(asked) if asked else devices


def all_owing(devices: Devices, agents: Iterable[str], now: float, patience: Patience) -> Devices:
    """These owe an answer; of those that said something since they were asked and then nothing for
    too long, it is as if they had been asked when they were last heard.
    """
    since = now - patience.silence
    known = (devices[agent] for agent in agents if agent in devices)
    silent = {d.agent: replace(d, asked=d.seen) for d in known if d.asked < d.seen <= since}
    return devices.plus(silent) if silent else devices


def longest_gone(devices: Devices, now: float, patience: Patience) -> str | None:
    """Whose place another may take: who is gone and was not heard for longest, if anyone is."""
    gone = (device for device in devices.values() if device.gone(now, patience))
    oldest = min(gone, key=lambda device: (device.seen, device.agent), default=None)
    return None if oldest is None else oldest.agent


def pupils(devices: Devices) -> Devices:
    """All but sites: who runs a bundle itself."""
    return devices.minus([name for name, device in devices.items() if device.is_site])


def eligible(devices: Devices, now: float, patience: Patience) -> tuple[str, ...]:
    """Who may be asked: everyone who is not gone."""
    return tuple(
        sorted(device.agent for device in devices.values() if not device.gone(now, patience))
    )


def gone(devices: Devices, agents: Iterable[str], now: float, patience: Patience) -> frozenset[str]:
    """Which of these are gone, or were never there."""
    return frozenset(
        agent for agent in agents if agent not in devices or devices[agent].gone(now, patience)
    )


def _about(birth: Mapping[str, Any]) -> dict[str, Any]:
    about = {name: birth[name] for name, kind in ABOUT.items() if type(birth.get(name)) is kind}
    names = birth.get("classes")
    if isinstance(names, list):
        about["classes"] = [name for name in names if isinstance(name, str)][:MOST_CLASSES]
    return about
