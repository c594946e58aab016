"""Who belongs to the fleet and who is there: births, last wills and signs of life, as plain
values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class DeviceRecord:
    """One device as the coordinator knows it; `seen` is by the coordinator's own clock."""

    agent: str
    boot: str = ""
    online: bool = False
    left: bool = False
    seen: float = 0.0
    about: Mapping[str, Any] = field(default_factory=dict)
    round: int | None = None  # the last one it reported on
    accuracy: Mapping[str, float] = field(default_factory=dict)
    declines: str = ""  # why it does not train just now


ABOUT = ("version", "wire", "classes", "backbone", "device", "samples")
Devices = Mapping[str, DeviceRecord]


def known(births: Mapping[str, Mapping[str, Any]], now: float) -> dict[str, DeviceRecord]:
    """Devices as the journal remembers them, none of them heard of yet."""
    return {
        agent: DeviceRecord(
            agent,
            left=birth.get("left") is True,
            seen=now,
            about={k: birth[k] for k in ABOUT if k in birth},
        )
        for agent, birth in births.items()
    }


def born(devices: Devices, agent: str, boot: str, body: Mapping[str, Any], now: float) -> Devices:
    """A birth or a death; a death of an earlier life than the one that is known says nothing."""
    known = devices.get(agent, DeviceRecord(agent))
    if body.get("online") is True:
        about = {
            name: body[name]
            for name in ("version", "wire", "classes", "backbone", "device", "samples")
            if name in body
        }
        fresh = replace(
            known, boot=boot, online=True, left=False, seen=now, about=about, declines=""
        )
        return {**devices, agent: fresh}
    if agent not in devices or (known.boot and boot != known.boot):
        return devices
    return {
        **devices,
        agent: replace(known, boot=boot, online=False, left=body.get("reason") == "left", seen=now),
    }


def heard(devices: Devices, agent: str, now: float, **changes: Any) -> Devices:
    """A sign of life of a registered device."""
    known = devices.get(agent)
    return devices if known is None else {**devices, agent: replace(known, seen=now, **changes)}


def all_heard(devices: Devices, agents: Iterable[str], now: float) -> Devices:
    """Signs of life of many at once."""
    known = {agent: replace(devices[agent], seen=now) for agent in agents if agent in devices}
    return {**devices, **known} if known else devices


def eligible(devices: Devices, now: float, patience: float) -> tuple[str, ...]:
    """Who may be asked: those online, and those that were lost less than `patience` seconds ago."""
    return tuple(
        sorted(
            d.agent
            for d in devices.values()
            if not d.left and (d.online or now - d.seen < patience)
        )
    )
