"""The coordinator's side of the processes that take uploads in for it: started, heard, started
again, ended.
"""

# Theory of operation
#
# A crew belongs to the service's loop. A thread a process reads its pipe, puts what it says into
# one queue and wakes the loop; everything else happens there.
#
#   turn      `heard` gives the batches that came; the core takes them (`coordinator.core`), and
#             says `taken` once they are in the journal: before a cut, which asks for totals
#   its end   `tell` says where the round stands, if that is news; `over` lets the broker forget
#   a cut     `totals` asks all for their sums and waits for them
#
# Whoever dies is started again under its number, so its session at the broker is its next life's.
# What it had in its total is in the journal. Whoever says nothing for SILENCE seconds, or does not
# answer a cut, is ended, and then has died: a broker hands nothing on from a consumer that stalls.
#
# Segments. The numbers of those that are written to are the coordinator's to grant, as it removes
# files that no row points into: a segment may go once its writer has begun the next one or is dead,
# and all that it said was heard.

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, Pipe
from queue import Empty, SimpleQueue

from coordinator.ingestion.words import (
    Alive,
    Answer,
    Begun,
    Ended,
    Grant,
    HeardBatch,
    IngestJob,
    Members,
    NoShares,
    OpenRound,
    Order,
    Over,
    RowBatch,
    Taken,
    Totals,
    TotalsWanted,
)
from coordinator.journal.segments import SegmentLog
from coordinator.uploads.folding import Group
from protofleet.util.logs import Log
from protofleet.util.processes import without_secrets

SILENCE = 30.0  # seconds; a sign of life comes each second
PATIENCE = 20.0  # seconds for an answer to a cut
READY = 10.0  # seconds to reach the broker, at the start
LONG, AGAIN = 10.0, 1.0  # who lived that long is started again at once, else after a second
AT_HAND = 2  # numbers of segments that an ingester has beside the one that it writes to


@dataclass
class _Life:
    """One process, or none just now."""

    number: int
    process: subprocess.Popen[bytes] | None = None
    pipe: Connection | None = None
    life: int = 0  # what earlier ones said is told apart by it
    began: float = 0.0
    heard: float = 0.0
    again: float = 0.0  # when to start the next
    segments: list[int] = field(default_factory=list)  # granted; the one it writes to is first
    connected: bool = False


class IngesterCrew:
    """So many ingesters, of which any may die."""

    def __init__(
        self, count: int, job: IngestJob, segments: SegmentLog, log: Log, wake: Callable[[], None]
    ) -> None:
        self._job, self._segments, self._log, self._wake = job, segments, log, wake
        self._queue: SimpleQueue[tuple[int, int, Answer]] = SimpleQueue()
        self._lives = [_Life(number) for number in range(1, count + 1)]
        self._standing: OpenRound | None = None
        self._batches: list[HeardBatch] = []
        self._totals: dict[int, Totals] = {}
        # Segments that nobody writes to any more, though rows of them may wait to be taken.
        self._left: list[int] = []
        self._leaving: list[int] = []
        self.refused = ""  # why the broker gives no shares

    @property
    def pids(self) -> list[int]:
        """Of those that run."""
        return [life.process.pid for life in self._lives if life.process is not None]

    def start(self) -> None:
        """Those that do not run."""
        for life in self._lives:
            if life.process is None:
                self._start(life)

    def settle(self) -> None:
        """Start all, and wait a while until the broker deals uploads out to each: what a device
        says before there is anybody to hear it would have to come again.
        """
        self.start()
        until = time.monotonic() + READY
        while not self.refused and not all(life.connected for life in self._lives):
            if (left := until - time.monotonic()) <= 0:
                return
            self._listen(left)

    def stop(self) -> None:
        """End all; what they have not handed over comes again."""
        for life in self._lives:
            self._end(life)
            life.again = float("inf")

    def heard(self) -> list[HeardBatch]:
        """The batches that came since the last call, in their order; who died is started again."""
        # The rows of the call before are in the journal by now, or are not to be.
        for segment in self._leaving:
            self._segments.release(segment)
        self._listen()
        self._left, self._leaving = [], self._left
        now = time.monotonic()
        for life in self._lives:
            if life.process is None and now >= life.again:
                self._start(life)
            elif life.process is not None and now - life.heard > SILENCE:
                self._log.warning("an ingester says nothing, and is ended", number=life.number)
                self._end(life)
        batches, self._batches = self._batches, []
        return batches

    def taken(self, batch: HeardBatch, back: Sequence[int]) -> None:
        """Its rows are in the journal, all but these."""
        self._say(batch.ingester, Taken(batch.batch.number, tuple(back)), batch.life)

    def over(self, batches: Sequence[HeardBatch]) -> None:
        """All that came of them is said."""
        for batch in batches:
            self._say(batch.ingester, Over(batch.batch.number), batch.life)

    def tell(self, standing: OpenRound) -> None:
        """Where the round stands, if that is news."""
        if standing != self._standing:
            self._standing = standing
            for life in self._lives:
                self._say(life.number, standing)

    def members(self, members: Members | None) -> None:
        """Other keys count from now on."""
        if members != self._job.members:
            self._job = replace(self._job, members=members)
            if members is not None:
                for life in self._lives:
                    self._say(life.number, members)

    def totals(self, serial: int) -> Iterator[Group]:
        """The sums of all that are there; whoever does not answer is ended."""
        self._totals = {}
        asked = [life for life in self._lives if life.process is not None]
        for life in asked:
            self._say(life.number, TotalsWanted(serial))
        until = time.monotonic() + PATIENCE
        while waiting := [
            life for life in asked if life.process is not None and life.number not in self._totals
        ]:
            left = until - time.monotonic()
            if left <= 0:
                for life in waiting:
                    self._log.warning("an ingester answers no cut", number=life.number)
                    self._end(life)
                break
            self._listen(left)
        for totals in self._totals.values():
            if totals.serial == serial:
                yield from totals.groups

    # one process

    def _start(self, life: _Life) -> None:
        ours, theirs = Pipe()
        command = [sys.executable, "-m", "coordinator.ingestion"]
        life.life += 1
        life.began = life.heard = time.monotonic()
        # Its own session, as Ctrl-C is the coordinator's to answer; it ends with the pipe.
        life.process = subprocess.Popen(
            [*command, str(theirs.fileno()), str(os.getpid())],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr.fileno(),
            env=without_secrets(os.environ),
            start_new_session=True,
        )
        theirs.close()
        # Read on an end of its own: a pipe that one thread closes while another reads it is
        # nobody's.
        reading = Connection(os.dup(ours.fileno()), writable=False)
        life.pipe = ours
        threading.Thread(
            target=self._read,
            args=(reading, life.process, life.number, life.life),
            name=f"ingester-{life.number}",
            daemon=True,
        ).start()
        self._say(life.number, replace(self._job, number=life.number))
        self._grant(life)
        if self._standing is not None:
            self._say(life.number, self._standing)

    def _grant(self, life: _Life) -> None:
        while len(life.segments) <= AT_HAND:
            life.segments.append(self._segments.reserve())
            self._say(life.number, Grant(life.segments[-1]))

    def _end(self, life: _Life) -> None:
        """At once; that it ended is heard like any other death."""
        process, pipe, life.pipe = life.process, life.pipe, None
        if pipe is not None:
            pipe.close()
        if process is not None:
            process.kill()

    def _read(
        self, pipe: Connection, process: subprocess.Popen[bytes], number: int, life: int
    ) -> None:
        while True:
            try:
                answer = pipe.recv()
            except (EOFError, OSError):
                pipe.close()
                answer = Ended(f"exit {process.wait()}")
            self._queue.put((number, life, answer))
            self._wake()
            if isinstance(answer, Ended):
                return

    def _say(self, number: int, order: Order, only: int | None = None) -> None:
        """To the process of this number, or to that one life of it."""
        life = self._lives[number - 1]
        if life.pipe is None or (only is not None and only != life.life):
            return
        with contextlib.suppress(OSError):  # it died: that is heard
            life.pipe.send(order)

    def _listen(self, patience: float = 0.0) -> None:
        """All that was said; wait so long for the first word."""
        try:
            word = self._queue.get(timeout=patience) if patience else self._queue.get_nowait()
            while True:
                self._answered(*word)
                word = self._queue.get_nowait()
        except Empty:
            return

    def _answered(self, number: int, which: int, answer: Answer) -> None:
        life = self._lives[number - 1]
        life.heard = time.monotonic()
        match answer:
            case RowBatch():
                # Also of one that died since: its bytes are on disk.
                self._batches.append(HeardBatch(number, which, answer))
            case Begun():
                at = life.segments.index(answer.segment)
                self._left += life.segments[:at]
                life.segments = life.segments[at:]
                self._grant(life)
            case Totals():
                self._totals[number] = answer
            case Alive():
                life.connected = answer.connected
            case NoShares():
                self.refused = self.refused or answer.words  # the first says most
            case Ended():
                self._ended(life, answer.words)

    def _ended(self, life: _Life, words: str) -> None:
        now = time.monotonic()
        self._left += life.segments
        life.segments = []
        if life.pipe is not None:
            life.pipe.close()
        life.process = life.pipe = None
        life.connected = False
        if life.again == float("inf"):
            return
        life.again = now if now - life.began >= LONG else now + AGAIN
        self._log.warning(f"an ingester ended ({words}), started again", number=life.number)
