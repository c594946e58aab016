"""The process that watches a device's cameras for its daemon.

`python -m edge_agent.cameras.child PID` reads its job as the first line of standard input, and on
the lines after it what became of what it said (`relay`); it ends when there is no more input.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from dataclasses import dataclass
from typing import Any, BinaryIO

from edge_agent.config import CameraSection
from protofleet.errors import FleetError
from protofleet.settings.fields import from_plain
from protofleet.util.logs import Log
from protofleet.util.processes import die_with_parent


@dataclass(frozen=True)
class CameraJob:
    """What such a process is told."""

    camera: CameraSection
    bundle: str
    log_format: str = "text"


def listen(lines: BinaryIO, outcomes: queue.Queue[str], stop: Any) -> None:
    """Each line to who waits for it; when there are no more, `stop`."""
    for line in lines:
        outcomes.put(line.decode("ascii", "replace").strip())
    outcomes.put("")
    stop()


def main() -> None:
    """Watch until the daemon closes its end."""
    die_with_parent(int(sys.argv[1]))
    job = from_plain(CameraJob, json.loads(sys.stdin.buffer.readline()))
    log = Log(sys.stderr, "json" if job.log_format == "json" else "text")
    try:
        _watch(job, log)
    except FleetError as error:
        log.error(f"the cameras are not watched: {error}")
        sys.exit(1)


def _watch(job: CameraJob, log: Log) -> None:
    # Before all that imports numpy: it keeps that to one thread.
    from edge_agent.inference.classifier import Classifier  # noqa: I001
    from pathlib import Path

    from edge_agent.cameras.assembly import WatchPlan, senders_of, watching
    from edge_agent.cameras.saying.relay import RelaySender

    outcomes: queue.Queue[str] = queue.Queue()
    senders = dict(senders_of(job.camera, os.environ, log))
    if job.camera.fleet:
        senders["fleet"] = RelaySender(sys.stdout.buffer, outcomes)
    bundle = Path(job.bundle)
    plan = WatchPlan(job.camera, bundle, lambda answer: None, senders)
    with watching(plan, Classifier(bundle), log) as watcher:
        threading.Thread(
            target=listen, args=(sys.stdin.buffer, outcomes, watcher.stop), daemon=True
        ).start()
        watcher.run()


if __name__ == "__main__":
    main()
