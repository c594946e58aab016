"""`edge-agent watch` on streams for as many frames as hours have: how old what it answers is, what
it holds in memory, and what a cut does.
"""

# Theory of operation
#
# A server of slides (`slides`) sends as fast as the viewer reads (MJPEG) or far faster than a
# camera (RTSP); the command looks at every frame that it can get (`--every 0 --motion 0 --frames`)
# and says each look. From outside are measured
#
#   age       of each look when its line is read here: by the class that it names and the clock
#   memory    of the command's process and its decoder's, each second; early is the median of the
#             second tenth of the run (caches and arenas have filled up by then), late of the last
#   cuts      at thirds of the run the server is killed and comes back after DARK seconds: is it
#             said, and how long does it take until the next look
#
# The process that decodes is another one after each cut: its memory is that since the last one.

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from protofleet.errors import DataError
from simulators.streams.servers import MjpegServer, RtspServer
from simulators.streams.slides import Slides

DARK = 3.0  # seconds for which the server is away
PATIENCE = 120.0  # seconds for the next look
TICKS = os.sysconf("SC_CLK_TCK")
Say = Callable[[str], None]


@dataclass
class Watching:
    """The command, what it said, and what it held at what time."""

    process: subprocess.Popen[str]
    slides: Slides
    ages: list[float] = field(default_factory=list)  # measured here
    own_ages: list[float] = field(default_factory=list)  # as it says
    kinds: dict[str, int] = field(default_factory=dict)
    looked_at: float = 0.0
    memory: list[tuple[float, float]] = field(default_factory=list)  # MB: itself, its decoder

    @classmethod
    def of(cls, bundle: Path, url: str, slides: Slides, folder: Path) -> Watching:
        """Begin to watch."""
        words = ["watch", "--bundle", str(bundle), f"bench={url}", "--every", "0", "--motion", "0"]
        with (folder / "log").open("a") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "edge_agent", *words, "--frames"],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=folder,
            )
        one = cls(process, slides)
        threading.Thread(target=one._read, daemon=True).start()
        threading.Thread(target=one._weigh, daemon=True).start()
        return one

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            now, document = time.time(), json.loads(line)
            kind = document["kind"]
            self.kinds[kind] = self.kinds.get(kind, 0) + 1
            if kind == "frame":
                self.looked_at = time.monotonic()
                self.ages.append(self.slides.age(document["nearest"], now))
                self.own_ages.append(document["age"])

    def _weigh(self) -> None:
        while self.process.poll() is None:
            children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
            with suppress(OSError):
                # Decoders are started by a thread of the camera's own.
                tasks = children.parent.parent.glob("*/children")
                pids = [int(pid) for task in tasks for pid in task.read_text().split()]
                self.memory.append((rss(self.process.pid), sum(map(rss, pids))))
            time.sleep(1.0)

    @property
    def cpu(self) -> float:
        """Processor seconds of its process and of decoders that have ended."""
        with suppress(OSError):
            text = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2]
            return sum(map(int, text.split()[11:15])) / TICKS
        return 0.0


def rss(pid: int) -> float:
    """Megabytes; none of a process that has ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    return 0.0


def bench(
    server: MjpegServer | RtspServer, bundle: Path, frames: int, folder: Path, say: Say
) -> dict[str, Any]:
    """One source for so many frames, cut twice."""
    server.start()
    began = time.monotonic()
    watching = Watching.of(bundle, server.url, server.slides, folder)
    try:
        _next_look(watching, began)
        cuts = []
        for third in (1, 2, 3):
            while server.frames < frames * third / 3:
                if watching.process.poll() is not None:
                    raise DataError("it ended", (folder / "log").read_text()[-300:])
                say(f"{server.frames:,} frames sent, {len(watching.ages):,} looked at")
                time.sleep(1.0)
            if third < 3:
                cuts.append(_cut(server, watching))
        cpu = watching.cpu
    finally:
        watching.process.terminate()
        server.stop()
        watching.process.wait(60)
    seconds = time.monotonic() - began
    return {
        "frames": server.frames,
        "seconds": round(seconds, 1),
        "cpu_s": round(cpu, 1),
        "kinds": watching.kinds,
        "age_s": _spread(watching.ages),
        "own_age_s": _spread(watching.own_ages),
        "older_than_1_s": int(np.sum(np.array(watching.ages) > 1.0)),
        "watch_mb": _growth([own for own, _ in watching.memory]),
        "decoder_mb": _growth([other for _, other in watching.memory if other]),
        "cuts": cuts,
        "log": (folder / "log").read_text().splitlines()[-8:],
    }


def _cut(server: MjpegServer | RtspServer, watching: Watching) -> dict[str, Any]:
    lost = watching.kinds.get("lost", 0)
    server.stop()
    time.sleep(DARK)
    back = time.monotonic()
    server.start()
    seconds = _next_look(watching, back)
    return {"lost_said": watching.kinds.get("lost", 0) - lost, "back_after_s": round(seconds, 1)}


def _next_look(watching: Watching, since: float) -> float:
    """Seconds until it looks at a frame again."""
    while watching.looked_at <= since:
        if time.monotonic() - since > PATIENCE:
            raise DataError("nothing is looked at")
        time.sleep(0.05)
    return watching.looked_at - since


def _spread(ages: list[float]) -> dict[str, float]:
    if not ages:
        return {}
    names = {"median": 50, "p99": 99, "p99.9": 99.9, "largest": 100}
    return {name: round(float(np.percentile(ages, p)), 3) for name, p in names.items()}


def _growth(memory: list[float]) -> dict[str, float]:
    if len(memory) < 10:
        return {"largest": max(memory, default=0.0)}
    tenth = len(memory) // 10
    early, late = np.median(memory[tenth : 2 * tenth]), np.median(memory[-tenth:])
    rows = {"early": early, "late": late, "largest": max(memory)}
    return {name: round(float(value), 1) for name, value in rows.items()}
