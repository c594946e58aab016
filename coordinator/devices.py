"""Who belongs to the fleet and who is there: births, last wills and signs of life, as plain
values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

ABOUT = ("version", "wire", "classes", "backbone", "device", "samples")


@dataclass(frozen=True)
class DeviceRecord:
    """One device as the coordinator knows it; `seen` is by the coordinator's own clock."""

    agent: str
    boot: str = ""
    online: bool = False
    left: bool = False
    seen: float = 0.0
    about: Mapping[str, Any] = field(default_factory=dict)  # of its birth, what ABOUT names
    round: int | None = None  # the last one it reported on
    accuracy: Mapping[str, float] = field(default_factory=dict)
    declines: str = ""  # why it does not train just now


Devices = Mapping[str, DeviceRecord]


def from_births(births: Mapping[str, Mapping[str, Any]], now: float) -> dict[str, DeviceRecord]:
    """Devices as the journal remembers them, none of them heard of yet."""
    return {
        agent: DeviceRecord(agent, left=birth.get("left") is True, seen=now, about=_about(birth))
        for agent, birth in births.items()
    }


def with_birth(
    devices: Devices, agent: str, boot: str, body: Mapping[str, Any], now: float
) -> Devices:
    """A birth or a death; a death of an earlier life than the one that is known says nothing."""
    before = devices.get(agent, DeviceRecord(agent))
    if body.get("online") is True:
        born = replace(
            before, boot=boot, online=True, left=False, seen=now, about=_about(body), declines=""
        )
        return {**devices, agent: born}
    # The broker sends the will of a connection that it gave up, and that may be after the device
    # is back with a new one. A device from the journal has no boot id yet: any death is its own.
    if agent not in devices or (before.boot and boot != before.boot):
        return devices
    # One that leaves for good says so; what a will speaks for is expected back.
    leaves = body.get("reason") == "left"
    return {**devices, agent: replace(before, boot=boot, online=False, left=leaves, seen=now)}


def alive(devices: Devices, agent: str, now: float, **changes: Any) -> Devices:
    """A sign of life of a registered device, and what else it says of itself."""
    device = devices.get(agent)
    return devices if device is None else {**devices, agent: replace(device, seen=now, **changes)}


def all_alive(devices: Devices, agents: Iterable[str], now: float) -> Devices:
    """Signs of life of many at once, for one copy of the table."""
    alive = {agent: replace(devices[agent], seen=now) for agent in agents if agent in devices}
    return {**devices, **alive} if alive else devices


def eligible(devices: Devices, now: float, patience: float) -> tuple[str, ...]:
    """Who may be asked: those online, and those that were lost less than `patience` seconds ago."""
    return tuple(
        sorted(
            device.agent
            for device in devices.values()
            if not device.left and (device.online or now - device.seen < patience)
        )
    )


def _about(birth: Mapping[str, Any]) -> dict[str, Any]:
    return {name: birth[name] for name in ABOUT if name in birth}
