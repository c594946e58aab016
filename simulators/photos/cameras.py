"""Cameras as processes: `edge-agent run` on a folder each, watched from outside for memory and
processor time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from protofleet.errors import FleetError

T = TypeVar("T")
EVERY = 0.1  # seconds between two looks at memory
TICKS = os.sysconf("SC_CLK_TCK")
MB = 1 << 10  # of the kernel's kilobytes


@dataclass
class Watched:
    """A camera's processes: the largest of them, all of them at one time, and whether any of them
    ever loaded torch.
    """

    largest_mb: float = 0.0
    together_mb: float = 0.0
    daemon_mb: float = 0.0
    torch: bool = False
    cpu_contributed: float = 0.0  # processor seconds when its contribution had been taken


@dataclass
class Camera:
    """One device; `python` is the interpreter that it runs under."""

    name: str
    photos: Path
    folder: Path
    broker: str
    python: str = sys.executable
    words: Sequence[str] = ()
    process: subprocess.Popen[bytes] | None = None
    watched: Watched = field(default_factory=Watched)

    @property
    def bundle(self) -> Path:
        """What it classifies with."""
        return self.folder / "fleet.pfb"

    def start(self) -> None:
        """Until `stop`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        words = ["run", "--id", self.name, "--fleet", "f", "--broker", self.broker]
        words += ["--data", str(self.photos), "--data-dir", str(self.folder), *self.words]
        with (self.folder / "log").open("ab") as log:
            command = [self.python, "-m", "edge_agent", *words]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def stop(self) -> None:
        """In good order."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(20)

    @property
    def cpu(self) -> float:
        """Processor seconds of it and of all its processes that have ended."""
        assert self.process is not None
        text = Path(f"/proc/{self.process.pid}/stat").read_text()
        # The name, in brackets, may hold anything: numbers begin behind the last one.
        fields = text.rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / TICKS

    def look(self, *, libraries: bool) -> None:
        """Note what its processes take now."""
        if self.process is None or self.process.poll() is not None:
            return
        pids = [self.process.pid, *descendants(self.process.pid)]
        sizes = [_kilobytes(pid) for pid in pids]
        self.watched.daemon_mb = max(self.watched.daemon_mb, sizes[0] / MB)
        self.watched.largest_mb = max(self.watched.largest_mb, max(sizes) / MB)
        self.watched.together_mb = max(self.watched.together_mb, sum(sizes) / MB)
        if not self.watched.cpu_contributed and "it: own" in (self.folder / "log").read_text():
            self.watched.cpu_contributed = self.cpu
        if libraries:
            self.watched.torch |= any(_has_torch(pid) for pid in pids)


class Watch:
    """Looks at cameras until it is left."""

    def __init__(self, cameras: Sequence[Camera]) -> None:
        self._cameras, self._stop = cameras, threading.Event()
        self._thread = threading.Thread(target=self._look, name="watch", daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        turn = 0
        while not self._stop.wait(EVERY):
            for camera in self._cameras:
                camera.look(libraries=turn % 5 == 0)
            turn += 1


def descendants(pid: int) -> list[int]:
    """A process's children, and theirs."""
    with suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [one for child in map(int, children) for one in (child, *descendants(child))]
    return []


def until(holds: Callable[[], T | None], what: str, patience: float) -> T:
    """What it gives, once it gives anything."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        answer = holds()
        if answer:
            return answer
        time.sleep(0.05)
    raise FleetError(f"waited {patience:g} s in vain for {what}")


def _kilobytes(pid: int) -> int:
    with suppress(OSError, ValueError, StopIteration):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1])
    return 0


def _has_torch(pid: int) -> bool:
    with suppress(OSError):
        return "libtorch" in Path(f"/proc/{pid}/maps").read_text()
    return False


def document(camera: Camera) -> dict[str, Any]:
    """What was seen of it."""
    watched = camera.watched
    return {
        "rss_mb": round(watched.largest_mb, 1),
        "rss_together_mb": round(watched.together_mb, 1),
        "rss_daemon_mb": round(watched.daemon_mb, 1),
        "torch": watched.torch,
    }
