"""The process that watches this device's cameras: started when there is something to classify with,
started again when it ends, and what it sees said on this device's own connection.
"""

# Theory of operation
#
# The process (`edge_agent.cameras.child`) says one answer at a time on its standard output and
# waits until it hears what became of it:
#
#   there is a connection        published on d/{id}/sees/CAMERA[.REGION]; `ok` once the broker has
#                                it, `no` if its rules forbid it
#   there is none, or it is      `later`: the process keeps it on its disk, and comes back
#   full
#
#   the process                  what is done
#   ends                         its last line is in the log already; started again after 1 s, then
#                                twice as long each time, at most a minute
#   says what is no answer       ended; then the same
#   there is no bundle yet       not started; one line
#
# When the daemon leaves, it closes the process's input, which ends it in good order.

from __future__ import annotations

import json
import os
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Protocol

from edge_agent.cameras.saying.relay import LATER, NO, OK
from edge_agent.config import Config
from protofleet.errors import LinkBusy
from protofleet.mqtt.link.events import Ticket
from protofleet.settings.fields import to_plain
from protofleet.util.logs import Log
from protofleet.util.processes import without_secrets

FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0  # seconds
STEADY = 60.0  # seconds after which a process counts as one that works
LONGEST = 8192  # bytes of a line
PATIENCE = 15.0  # seconds that it gets to leave
_LINE = re.compile(rb"([0-9]{1,12}) (\{.*\})\n")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,29}")

Publish = Callable[[str, bytes], Ticket]


class CameraProcess(Protocol):
    """A process with pipes, as `subprocess` makes them."""

    stdin: IO[bytes] | None
    stdout: IO[bytes] | None

    def poll(self) -> int | None: ...
    def kill(self) -> None: ...
    def wait(self, timeout: float | None = None) -> int: ...


class CameraChild:
    """At most one process at a time; where no camera is named there is none."""

    def __init__(
        self,
        config: Config,
        publish: Publish,
        wake: Callable[[], None],
        log: Log,
        clock: Callable[[], float],
        start: Callable[[Sequence[str]], CameraProcess] | None = None,
    ) -> None:
        self._config, self._publish, self._wake = config, publish, wake
        self._log, self._clock, self._start = log, clock, start or _launched
        self._bundle = Path(config.camera.bundle or config.data_dir / "fleet.pfb")
        self._process: CameraProcess | None = None
        self._lines: queue.SimpleQueue[tuple[CameraProcess, bytes]] = queue.SimpleQueue()
        self._under_way: tuple[str, Ticket] | None = None
        self._start_at, self._wait, self._began = 0.0, FIRST_WAIT, 0.0
        self._remarked = False

    def due(self) -> float:
        """When to look again without an event; never, if nothing is to be watched."""
        if not self._config.camera.sources or self._process is not None:
            return float("inf")
        return self._start_at

    def look(self, *, connected: bool) -> None:
        """Do what is due; called often."""
        if not self._config.camera.sources:
            return
        if self._process is None and self._clock() >= self._start_at:
            self._begin()
        while not self._lines.empty():
            process, line = self._lines.get()
            if process is self._process:
                self._take(line, connected=connected)
        if self._under_way is not None:
            number, ticket = self._under_way
            if ticket.done:
                self._under_way = None
                self._answer(number, OK if ticket.refused is None else NO)

    def stop(self) -> None:
        """The daemon leaves."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()

    def _begin(self) -> None:
        if not self._bundle.exists():
            if not self._remarked:
                self._log.info("the cameras wait for a bundle to classify with")
            self._remarked = True
            self._start_at = self._clock() + FIRST_WAIT
            return
        self._remarked = False
        job = {
            "camera": to_plain(self._config.camera),
            "bundle": str(self._bundle),
            "log_format": self._config.agent.log_format,
        }
        self._began = self._clock()
        command = [sys.executable, "-m", "edge_agent.cameras.child", str(os.getpid())]
        try:
            process = self._start(command)
        except OSError as error:
            self._log.warning(f"the cameras are not watched: {error.strerror}")
            self._ended()
            return
        self._process = process
        # Not in its arguments or its environment: addresses of cameras hold passwords.
        self._tell(json.dumps(job).encode() + b"\n")
        threading.Thread(
            target=self._listen, args=(process,), name="camera-answers", daemon=True
        ).start()

    def _listen(self, process: CameraProcess) -> None:
        assert process.stdout is not None
        line = b"\n"
        while line.endswith(b"\n"):
            line = process.stdout.readline(LONGEST)
            self._lines.put((process, line))
            self._wake()

    def _take(self, line: bytes, *, connected: bool) -> None:
        if not line:
            self._log.warning("the process that watches the cameras ended; it is started again")
            self._ended()
            return
        match = _LINE.fullmatch(line)
        place = _place(match[2]) if match else None
        if match is None or place is None or self._under_way is not None:
            self._log.warning("the process that watches the cameras said what is no answer")
            self._ended()
            return
        number = match[1].decode()
        if not connected:
            self._answer(number, LATER)
            return
        try:
            self._under_way = (number, self._publish(place, match[2]))
        except LinkBusy:
            self._answer(number, LATER)

    def _answer(self, number: str, words: str) -> None:
        self._tell(f"{number} {words}\n".encode())

    def _tell(self, words: bytes) -> None:
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):  # its end is in the queue behind this
                self._process.stdin.write(words)
                self._process.stdin.flush()

    def _ended(self) -> None:
        process, self._process, self._under_way = self._process, None, None
        if process is not None:
            process.kill()
            with suppress(subprocess.TimeoutExpired):
                process.wait(5.0)
        if self._clock() - self._began > STEADY:
            self._wait = FIRST_WAIT
        self._start_at = self._clock() + self._wait
        self._wait = min(LONGEST_WAIT, 2 * self._wait)


def _place(line: bytes) -> str | None:
    """The end of the topic that an answer belongs to."""
    try:
        document: Any = json.loads(line)
        camera, region = document["camera"], document["region"]
        words = [camera, region] if region else [camera]
        return ".".join(words) if all(_WORD.fullmatch(word) for word in words) else None
    except (ValueError, KeyError, TypeError):
        return None


def _launched(command: Sequence[str]) -> CameraProcess:
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=without_secrets(os.environ),
    )
