"""Some thousand light devices in one process, which does as it is told.

python -m simulators.throngs.device_host HOST PORT FLEET FIRST COUNT

Commands come as lines on its input (`join`, `contribute`, `cut`, `back`, `report`); on its output
it says in a line of JSON how its devices stand, whenever that changed, and at `report` all that
they were told.
"""

# One thread and one selector: ten thousand sockets are too many for a thread each. Devices come to
# the broker HANDSHAKES at a time, as its queue for new connections is short, and whoever does not
# fit in there waits a second or three.

from __future__ import annotations

import json
import os
import selectors
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from protofleet.mqtt.topics import Topics
from simulators.throngs.light_device import LightDevice

HANDSHAKES = 64  # connections that are being made
LOOK, TELL = 1.0, 0.2  # seconds between looks at what has to be said again, and between words
NAP = 0.2
AGAIN = 1.0  # seconds until a connection that failed is tried again


def device_name(number: int) -> str:
    """What the device of this number is called."""
    return f"light-{number:05d}"


@dataclass
class DeviceHost:
    """The devices, and the sockets of those that are there."""

    host: str
    port: int
    devices: Sequence[LightDevice]
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    lost: int = 0  # connections that ended by themselves
    _outside: deque[tuple[float, LightDevice]] = field(default_factory=deque)
    _coming: set[str] = field(default_factory=set)  # whose connection is being made

    def execute(self, command: str, now: float) -> None:
        """One line of the input."""
        match command:
            case "join" | "back":
                there = {device.agent for _, device in self._outside}
                away = [d for d in self.devices if d.connection is None and d.agent not in there]
                self._outside += [(now, device) for device in away]
            case "contribute":
                for device in self.devices:
                    device.contributes = True
                    device.contribute(now)
                    self._watch(device)
            case "cut":
                self._outside.clear()
                for device in self.devices[: len(self.devices) // 2]:
                    self._close(device)

    def turn(self, wait: float) -> bool:
        """Whatever is there to be done; whether the input has something."""
        self._admit(time.monotonic())
        commanded = False
        for key, mask in self.selector.select(wait):
            if key.data is None:
                commanded = True
                continue
            device: LightDevice = key.data
            try:
                if mask & selectors.EVENT_READ:
                    device.read(time.monotonic())
                if mask & selectors.EVENT_WRITE:
                    device.write()
            except (ConnectionError, TimeoutError):
                self.lost += 1
                self._close(device)
                self._outside.append((time.monotonic() + AGAIN, device))
                continue
            if device.is_born:
                self._coming.discard(device.agent)
            self._watch(device)
        return commanded

    def look(self, now: float) -> None:
        """What had no answer for too long."""
        for device in self.devices:
            if device.waiting:
                device.look(now)
                self._watch(device)

    @property
    def standing(self) -> dict[str, Any]:
        """How they stand, in numbers."""
        rounds: dict[int, int] = {}
        for device in self.devices:
            for number, _ in device.receipts.values():
                rounds[number] = rounds.get(number, 0) + 1
        return {
            "born": sum(device.is_born for device in self.devices),
            "waiting": sum(len(device.waiting) for device in self.devices),
            "receipts": {str(number): count for number, count in rounds.items()},
            "again": sum(device.again for device in self.devices),
            "lost": self.lost,
        }

    @property
    def report(self) -> dict[str, Any]:
        """All that they were told."""
        return {"report": {device.agent: device.receipts for device in self.devices}}

    def _admit(self, now: float) -> None:
        while self._outside and len(self._coming) < HANDSHAKES and self._outside[0][0] <= now:
            _, device = self._outside.popleft()
            connection = device.connect(self.host, self.port)
            self._coming.add(device.agent)
            both = selectors.EVENT_READ | selectors.EVENT_WRITE
            self.selector.register(connection, both, device)

    def _close(self, device: LightDevice) -> None:
        if device.connection is not None:
            self.selector.unregister(device.connection)
            self._coming.discard(device.agent)
            device.cut()

    def _watch(self, device: LightDevice) -> None:
        """Wait for what the device waits for."""
        if device.connection is None:
            return
        writes = selectors.EVENT_WRITE if device.wants_to_write else 0
        interest = selectors.EVENT_READ | writes
        if self.selector.get_key(device.connection).events != interest:
            self.selector.modify(device.connection, interest, device)


def main() -> None:
    """Until the input ends."""
    host, port, fleet, first, count = sys.argv[1:6]
    topics, start = Topics(fleet), int(first)
    names = [device_name(number) for number in range(start, start + int(count))]
    devices = DeviceHost(host, int(port), [LightDevice(name, topics) for name in names])
    devices.selector.register(0, selectors.EVENT_READ, None)
    before, look_at, tell_at, line = "", 0.0, 0.0, b""
    while True:
        if devices.turn(NAP):
            data = os.read(0, 4096)
            if not data:
                return
            *commands, line = (line + data).split(b"\n")
            for command in commands:
                devices.execute(command.decode(), time.monotonic())
                if command == b"report":
                    print(json.dumps(devices.report), flush=True)
        now = time.monotonic()
        if now >= look_at:
            look_at = now + LOOK
            devices.look(now)
        if now >= tell_at:
            tell_at, words = now + TELL, json.dumps(devices.standing)
            if words != before:
                before = words
                print(words, flush=True)


if __name__ == "__main__":
    main()
