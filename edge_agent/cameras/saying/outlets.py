"""Answers on their way to one place, in a thread of its own: whoever has an answer never waits."""

# Theory of operation
#
#   an answer comes         what is done
#   all was said before     said at once
#   that fails for now      kept on disk (`backlog`), and all that come after it, in order; tried
#                           again after 1, 2, 4, … 60 s, or when the other side says
#   that fails for good     (the other side does not take it) dropped, one line in the log
#   the disk is full        the newest MEMORY are kept in memory
#   more than may be kept   the oldest go; how many is said when the place is reached again
#   the process ends        tried for a moment, then kept for the next one
#
# A place that cannot be reached is one line, and one when it can be again.

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from edge_agent.cameras.saying.answers import SceneAnswer
from edge_agent.cameras.saying.backlog import Backlog
from protofleet.errors import DataError, FleetError
from protofleet.util.logs import Log

MEMORY = 1000  # answers
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0  # seconds
IDLE = 15.0  # seconds between two looks at a connection that nobody uses
PATIENCE = 3.0  # seconds for what waits when the process ends


class Unsaid(FleetError):
    """An answer that could not be said now; `after` is when the other side wants to be asked."""

    code = "unsaid"

    def __init__(self, words: str, after: float = 0.0) -> None:
        super().__init__(words)
        self.after = after


class Unwelcome(FleetError):
    """An answer that the other side does not take, now or later."""

    code = "unwelcome"


class Sender(Protocol):
    """A way to say a line; it ends in time, whatever is at the other end."""

    def send(self, line: str) -> None:
        """Say it, or `Unsaid`, or `Unwelcome`."""

    def idle(self) -> None:
        """Called while there is nothing to say."""

    def close(self) -> None:
        """No more will be said."""


@dataclass(frozen=True)
class OutletTerms:
    """What an outlet is made of; `what` names it in the log."""

    what: str
    sender: Sender
    backlog: Backlog
    log: Log
    clock: Callable[[], float] = time.monotonic


class Outlet:
    """From `start` to `stop`; `put` may be called from any thread."""

    def __init__(self, terms: OutletTerms) -> None:
        self._terms = terms
        self._waiting: deque[tuple[float, str]] = deque(maxlen=MEMORY)
        self._change = threading.Condition()
        self._stop_by: float | None = None
        self._retry_at, self._wait = 0.0, FIRST_WAIT
        self._failing = False
        self._dropped = 0
        self._thread = threading.Thread(target=self._run, name=f"say-{terms.what}", daemon=True)

    def start(self) -> None:
        """Begin with what an earlier process left."""
        self._thread.start()

    def put(self, answer: SceneAnswer) -> None:
        """Have it said."""
        with self._change:
            if len(self._waiting) == MEMORY:
                self._dropped += 1
            self._waiting.append((answer.at, answer.line()))
            self._change.notify_all()

    def stop(self) -> None:
        """Keep for the next process what cannot be said in a moment."""
        with self._change:
            self._stop_by = self._terms.clock() + PATIENCE
            self._change.notify_all()
        self._thread.join(2 * PATIENCE + 10.0)
        self._terms.sender.close()

    def _run(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(self._is_due, self._nap())
                stopping = self._stop_by is not None
            self._terms.sender.idle()
            self._turn()
            if stopping:
                self._store(keep=False)
                return

    def _is_due(self) -> bool:
        return self._stop_by is not None or (bool(self._waiting) and not self._failing)

    def _nap(self) -> float:
        if not self._failing:
            return 0.0 if len(self._terms.backlog) else IDLE
        return min(IDLE, max(0.0, self._retry_at - self._terms.clock()))

    def _turn(self) -> None:
        """Say what can be said, the oldest first."""
        if self._failing and self._terms.clock() < self._retry_at:
            self._store()
            return
        try:
            self._say_all()
        except FleetError as error:  # not said, or said and the disk does not forget it
            self._fail(error)
            self._store()

    def _say_all(self) -> None:
        backlog = self._terms.backlog
        while not self._is_over():
            try:
                first = backlog.first()
            except DataError:
                first = None
            if first is not None:
                self._say(first[1])
                backlog.forget(first[0])
            elif self._waiting:
                self._say(self._waiting[0][1])
                with self._change:
                    self._waiting.popleft()
            else:
                return

    def _is_over(self) -> bool:
        return self._stop_by is not None and self._terms.clock() > self._stop_by

    def _say(self, line: str) -> None:
        try:
            self._terms.sender.send(line)
        except Unwelcome as error:
            self._terms.log.warning(f"{self._terms.what}: an answer is not taken: {error}")
        except FleetError:
            raise
        except Exception as error:  # a thread that ends would never say anything again
            raise Unsaid(f"{error!r}"[:200]) from None
        if self._failing:
            dropped = f", {self._dropped} answers are lost" if self._dropped else ""
            self._terms.log.info(f"{self._terms.what}: reached again{dropped}")
        self._failing, self._wait, self._dropped = False, FIRST_WAIT, 0

    def _fail(self, error: FleetError) -> None:
        if not self._failing:
            self._terms.log.warning(f"{self._terms.what}: {error}; answers are kept, trying on")
        self._failing = True
        after = min(error.after, LONGEST_WAIT) if isinstance(error, Unsaid) else 0.0
        self._retry_at = self._terms.clock() + max(self._wait, after)
        self._wait = min(LONGEST_WAIT, 2 * self._wait)

    def _store(self, *, keep: bool = True) -> None:
        """What waits in memory, to the disk; in memory it stays where that is full."""
        with self._change:
            lines = list(self._waiting)
        if not lines:
            return
        try:
            dropped = self._terms.backlog.put(lines)
        except DataError as error:
            if not keep:
                self._terms.log.warning(f"{self._terms.what}: answers are lost: {error}")
            return
        with self._change:
            for _ in lines:
                if self._waiting:
                    self._waiting.popleft()
        self._dropped += dropped
