"""The training process as the daemon sees it: started when there is work, answered in a queue,
ended at any time.
"""

# Three parties: the daemon's loop (`order`, `answers`, `dismiss`), the process, and one thread a
# process that reads its pipe. The thread only puts answers into a queue and wakes the loop; when
# the pipe ends, the last thing it puts there is WorkerEnded with how the process died.
#
# Processes are numbered, and every answer carries the number of its process. `dismiss` counts on,
# so whatever a dismissed process has still said, its own end among it, is thrown away unread: the
# loop never takes an old process's answer for the new one's.
#
# A death that nobody ordered is told once, as WorkerEnded. If the next order is sent before the
# loop has read that, sending fails, and the order goes to a new process instead.

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
from protofleet.util.processes import without_secrets


class Supervisor(Protocol):
    """Whoever carries out a daemon's orders: a training process, or what stands for one where
    nothing is to be trained.
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
        answers = []
        while not self._answers.empty():
            number, answer = self._answers.get()
            if number == self._number:
                answers.append(answer)
                if isinstance(answer, WorkerEnded):
                    self.dismiss()
        return answers

    def dismiss(self, patience: float = 2.0) -> None:
        """End the process. What it was doing is done again another time."""
        process, pipe, self._process, self._pipe = self._process, self._pipe, None, None
        self._number += 1
        if pipe is not None:
            pipe.close()
        if process is None:
            return
        # No gentler signal first: the process ignores them (the daemon answers for all), and
        # nothing it could still say would be read.
        process.kill()
        # One that is stuck in the kernel is reaped when it lets go.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)

    def _started(self) -> Connection:
        if self._pipe is None:
            ours, theirs = Pipe()
            # A new interpreter and not a fork: the daemon has threads, and must never load torch.
            command = [sys.executable, "-m", "edge_agent.worker.runner"]
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno()), str(os.getpid())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno(),
                env=without_secrets(os.environ),
            )
            # Or the pipe would never end: it does when its last writer is gone.
            theirs.close()
            # Read on an end of its own: a pipe that one thread closes while another reads it is
            # nobody's.
            reading = Connection(os.dup(ours.fileno()), writable=False)
            threading.Thread(
                target=self._listen,
                args=(reading, self._process, self._number),
                name="worker-answers",
                daemon=True,
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
                self._answers.put((number, WorkerEnded(_death(process))))
                self._wake()
                return
            self._answers.put((number, answer))
            self._wake()


def _death(process: subprocess.Popen[bytes]) -> str:
    code = process.wait()
    if code == -signal.SIGKILL:
        return "the training process was killed, perhaps for want of memory"
    cause = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return f"the training process ended ({cause})"
