"""One try of one case: a folder, a seed that everything in it is drawn from, and which broker it
plays on.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from coordinator.errors import JournalError
from coordinator.journal.journal import Journal
from protofleet.mqtt.broker.mosquitto import Listening
from protofleet.mqtt.broker.run import Prefer, RunningBroker, running_broker
from simulators.databases.server import PostgresServer
from simulators.faults.testbed import CaseProcess, Testbed, until

SIGNED = 3  # of so many seeds one
Journals = Literal["sqlite", "postgresql"]


@dataclass(frozen=True)
class Attempt:
    """Given to a case."""

    folder: Path
    seed: int
    prefer: Prefer = "mosquitto"
    signed: bool = False  # on a fleet by invitation
    server: PostgresServer | None = None  # where journals lie, if not in files
    processes: list[CaseProcess] = field(default_factory=list)

    def rng(self) -> random.Random:
        """The same at every call, for the same seed."""
        return random.Random(self.seed)

    @contextmanager
    def broker(self, port: int = 0) -> Iterator[RunningBroker]:
        """A broker that keeps its files over its lives, where it can."""
        at = Listening(port=port)
        with running_broker(self.folder / "broker", at, prefer=self.prefer) as running:
            yield running

    def testbed(self, url: str, **how: Any) -> Testbed:
        """A testbed in this folder, its settings written."""
        journal = "" if self.server is None else self.server.database()
        folder, processes = self.folder / "fleet", self.processes
        testbed = Testbed(folder, url, journal=journal, processes=processes, **how)
        testbed.write()
        if self.signed:
            testbed.invite()
        return testbed


@dataclass(frozen=True)
class Case:
    """Something that may go wrong. `play` says what it tried, or raises because a promise was
    broken.
    """

    name: str
    play: Callable[[Attempt], str]
    soak: int = 3  # seeds in the long form
    brokers: tuple[Prefer, ...] = ("mosquitto", "embedded")
    root: bool = False  # it mounts a file system
    adversary: bool = False  # somebody means it
    signed: bool = False  # with every third seed on a fleet by invitation, where words are signed
    journals: tuple[Journals, ...] = ("sqlite", "postgresql")  # where it means anything

    def run(self, attempt: Attempt) -> str:
        """Play it, and leave no process behind, whatever happens."""
        signed = self.signed and attempt.seed % SIGNED == 1
        try:
            words = self.play(replace(attempt, signed=True) if signed else attempt)
            return f"{words}, signed" if signed else words
        finally:
            # In the order of their start; each is dead before the folder may be removed.
            for process in attempt.processes:
                process.kill()


class BreakableBroker:
    """A broker that can be killed and comes back on the same port."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._enter()
        self.url, self.port = str(self._running.address), self._running.address.port

    def _enter(self, port: int = 0) -> None:
        self._block = self._attempt.broker(port)
        self._running = self._block.__enter__()

    def kill(self) -> None:
        """As `kill -9`."""
        os.kill(self._running.pid, signal.SIGKILL)
        self._running.process.wait()

    def back(self) -> None:
        """A new life, with what the last one had saved."""
        self.close()
        self._enter(self.port)

    def close(self) -> None:
        """In good order, if it lives."""
        self._block.__exit__(None, None, None)


@contextmanager
def breakable_broker(attempt: Attempt) -> Iterator[BreakableBroker]:
    """For as long as the block lasts."""
    broker = BreakableBroker(attempt)
    try:
        yield broker
    finally:
        broker.close()


def upload_count(data: Path) -> int:
    """How many uploads a journal holds by now, whoever writes it."""
    try:
        journal = Journal.read(data)
        try:
            return len(journal.uploads())
        finally:
            journal.close()
    except JournalError:  # it is being made
        return 0


def after(testbed: Testbed, count: int) -> None:
    """Wait until the journal holds so many uploads."""
    until(lambda: upload_count(testbed.data) >= count, f"{count} uploads in the journal")


def pause(seconds: float) -> None:
    """Let a fault last."""
    time.sleep(seconds)
