"""A bundle every so many rounds, so that a device classifies with what it learned last; by a
process of its own.
"""

from __future__ import annotations

import subprocess
import sys

from edge_agent.worker.ipc import Job


class Exporter:
    """Starts `edge-agent export` when it is due. Training waits for nothing: one that still runs is
    left to finish.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._running: subprocess.Popen[bytes] | None = None
        self._done = 0

    def due(self, round: int) -> None:
        """A state came out of this round and is in the store."""
        every = self._job.export_every
        if not every or round <= self._done or round % every:
            return
        if self._running is not None and self._running.poll() is None:
            return
        # A process of its own: an export loads more libraries, whose memory it gives back.
        self._running = subprocess.Popen(
            self.command(), stdin=subprocess.DEVNULL, stdout=sys.stderr
        )
        self._done = round

    def command(self) -> list[str]:
        """The words of the call, whatever file the daemon has its settings from."""
        job = self._job
        command = [sys.executable, "-m", "edge_agent", "export"]
        command += ["--id", job.agent, "--data-dir", str(job.folder), "--out", str(job.export_to)]
        for name, value in vars(job.data).items():
            if value != "":
                command += ["--set", f"data.{name}={value}"]
        return command
