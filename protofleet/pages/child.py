"""A service's side of its page: a process of its own, started again when it dies."""

# Theory of operation
#
# The page may be killed, crash or be flooded, and the service must not notice. So it is a process
# that shares nothing with the service: it has no password of the broker, a lower priority, and asks
# for what it shows like any other program. A thread waits for its end and starts it anew, at once
# if it lived for LONG seconds, else after a pause that doubles to LONGEST.
#
# The child's input is a pipe that nobody writes to: it ends with the service, also where that is
# killed. It stands in a process group of its own, as Ctrl-C is the service's to answer.

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from protofleet.util.logs import Log
from protofleet.util.processes import without_secrets

LONG, FIRST, LONGEST = 30.0, 0.5, 30.0
END = 5.0  # seconds for it to end by itself


def pause_after(lived: float, before: float) -> float:
    """Seconds until the next start."""
    return FIRST if lived >= LONG else min(2 * before, LONGEST)


class Child:
    """A page's process, for as long as the `with` block."""

    def __init__(self, command: Sequence[str], log: Log) -> None:
        self._command, self._log = list(command), log
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._turn = threading.Lock()
        self._thread = threading.Thread(target=self._keep, name="page", daemon=True)

    def __enter__(self) -> Child:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._turn:  # no other is started from here on
            self._stopping.set()
            process = self._process
        if process is not None:
            _end(process)
        self._thread.join(END)

    @property
    def pid(self) -> int | None:
        """Of the one that runs."""
        process = self._process
        return None if process is None or process.poll() is not None else process.pid

    def _keep(self) -> None:

        pause = FIRST / 2
        while not self._stopping.is_set():
            began = time.monotonic()
            words = self._run()
            if self._stopping.is_set():
                return
            pause = pause_after(time.monotonic() - began, pause)
            self._log.warning(f"the page ended ({words}), started again", seconds=pause)
            self._stopping.wait(pause)

    def _run(self) -> str:
        """One life; how it ended."""
        try:
            with self._turn:
                if self._stopping.is_set():
                    return ""
                self._process = process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    env=without_secrets(os.environ),
                    start_new_session=True,
                )
        except OSError as error:
            return str(error.strerror)
        code = process.wait()
        if process.stdin is not None:
            process.stdin.close()
        return f"killed by signal {-code}" if code < 0 else f"exit {code}"


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(END)
    except subprocess.TimeoutExpired:
        with suppress(OSError):
            process.kill()
