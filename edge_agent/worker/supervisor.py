"""The training process as the daemon sees it: started when there is work, answered in a queue,
ended at any time.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe
from typing import Protocol

from edge_agent.worker.ipc import Answer, Job, Order, WorkerEnded


class Supervisor(Protocol):
    """Whoever carries out a daemon's orders: a foreman, or what stands for one where nothing is to
    be trained.
    """

    @property
    def pid(self) -> int | None: ...
    def order(self, order: Order) -> None: ...
    def answers(self) -> list[Answer]: ...
    def dismiss(self) -> None: ...


class WorkerSupervisor:
    """At most one process at a time. `wake` is called, from a thread of its own, when there is an
    answer to fetch.
    """

    def __init__(self, job: Job, wake: Callable[[], None]) -> None:
        self.job = job
        self._wake = wake
        self._answers: queue.SimpleQueue[tuple[int, Answer]] = queue.SimpleQueue()
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._number = 0

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return None if self._process is None else self._process.pid

    def order(self, order: Order) -> None:
        """Have it done; the answers come in `answers`."""
        try:
            self._started().send(order)
        except OSError:  # it died while it had nothing to do: the next one takes the order
            self.dismiss()
            self._started().send(order)

    def answers(self) -> list[Answer]:
        """What has been answered since the last call, by the process that works now."""
        found = []
        while not self._answers.empty():
            number, answer = self._answers.get()
            if number == self._number:
                found.append(answer)
                if isinstance(answer, WorkerEnded):
                    self.dismiss()
        return found

    def dismiss(self, patience: float = 2.0) -> None:
        """End the process. What it was doing is done again another time."""
        process, pipe, self._process, self._pipe = self._process, self._pipe, None, None
        self._number += 1
        if pipe is not None:
            pipe.close()
        if process is None:
            return
        process.kill()
        with contextlib.suppress(
            subprocess.TimeoutExpired
        ):  # stuck in the kernel: it is reaped when it lets go
            process.wait(patience)

    def _started(self) -> Connection:
        if self._pipe is None:
            ours, theirs = Pipe()
            words = [
                sys.executable,
                "-m",
                "edge_agent.worker.runner",
                str(theirs.fileno()),
                str(os.getpid()),
            ]
            self._process = subprocess.Popen(
                words,
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno(),
            )
            theirs.close()
            # Read on an end of its own: a pipe that one thread closes while another reads it is
            # nobody's.
            reading = Connection(os.dup(ours.fileno()), writable=False)
            listener = (reading, self._process, self._number)
            threading.Thread(
                target=self._listen, args=listener, name="worker-answers", daemon=True
            ).start()
            ours.send(self.job)
            self._pipe = ours
        return self._pipe

    def _listen(self, pipe: Connection, process: subprocess.Popen[bytes], number: int) -> None:
        while True:
            try:
                answer = pipe.recv()
            except (EOFError, OSError):
                pipe.close()
                self._answers.put((number, WorkerEnded(_how(process))))
                self._wake()
                return
            self._answers.put((number, answer))
            self._wake()


def _how(process: subprocess.Popen[bytes]) -> str:
    code = process.wait()
    if code == -signal.SIGKILL:
        return "the training process was killed, perhaps for want of memory"
    return f"the training process ended ({signal.Signals(-code).name if code < 0 else f'exit code {code}'})"
