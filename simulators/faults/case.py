"""One try of one case: a folder, a seed that everything in it is drawn from, and which broker it
plays on.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coordinator.errors import JournalError
from coordinator.journal.journal import Journal
from protofleet.mqtt.broker.mosquitto import Listening
from protofleet.mqtt.broker.run import Prefer, RunningBroker, running_broker
from simulators.faults.testbed import Actor, Testbed, until


@dataclass(frozen=True)
class Attempt:
    """Given to a case."""

    folder: Path
    seed: int
    prefer: Prefer = "mosquitto"
    actors: list[Actor] = field(default_factory=list)

    def rng(self) -> random.Random:
        """The same at every call, for the same seed."""
        return random.Random(self.seed)

    @contextmanager
    def broker(self, port: int = 0) -> Iterator[RunningBroker]:
        """A broker that keeps its files over its lives, where it can."""
        at = Listening(port=port)
        with running_broker(self.folder / "broker", at, prefer=self.prefer) as running:
            yield running

    def stage(self, url: str, **how: Any) -> Testbed:
        """A stage in this folder, its settings written."""
        made = Testbed(self.folder / "stage", url, actors=self.actors, **how)
        made.write()
        return made


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

    def tried(self, scene: Attempt) -> str:
        """Play it, and leave no process behind, whatever happens."""
        try:
            return self.play(scene)
        finally:
            for actor in scene.actors:
                actor.kill()


class Breakable:
    """A broker that can be killed and comes back on the same port."""

    def __init__(self, scene: Attempt) -> None:
        self._scene = scene
        self._enter()
        self.url, self.port = str(self._running.address), self._running.address.port

    def _enter(self, port: int = 0) -> None:
        self._block = self._scene.broker(port)
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
def breakable(scene: Attempt) -> Iterator[Breakable]:
    """For as long as the block lasts."""
    broker = Breakable(scene)
    try:
        yield broker
    finally:
        broker.close()


def uploads(data: Path) -> int:
    """How many uploads a journal holds by now, whoever writes it."""
    try:
        journal = Journal.read(data)
        try:
            return len(journal.uploads())
        finally:
            journal.close()
    except (JournalError, sqlite3.Error):  # it is being made
        return 0


def after(stage: Testbed, count: int) -> None:
    """Wait until the journal holds so many uploads."""
    until(lambda: uploads(stage.data) >= count, f"{count} uploads in the journal")


def pause(seconds: float) -> None:
    """Let a fault last."""
    time.sleep(seconds)
