"""Numbers that only rise: those that a signer gives out, over restarts and losses of power, and
those that a reader has seen.
"""

# Theory of operation
#
# A signature says who spoke and where, not when: what was true once could be said again for ever.
# So each message has a number, above all that its signer gave out before, and a reader takes none
# below the highest that it took.
#
# The signer writes down before it speaks. A file names the first number that was never given out;
# a block of BLOCK is taken at a time, with one write that waits for the disk. A process that is
# killed, or a machine without power, loses what is left of its block and goes on above it. A file
# that was lost or restored from an old copy would begin too low, and nobody would believe its
# owner: so a life begins at the clock's milliseconds at least, if these are higher. A clock that
# stands still or behind does no harm, as the file goes on.
#
# Lanes. Numbers rise on each lane by itself, as messages of one lane arrive in the order in which
# they were sent and those of two may not: MQTT promises order by topic. A lane is what the reader
# makes of the topic, and one of these, which the signer says and signs:
#
#   lane        speaker
#   DAEMON      the process that is the device, or the coordinator
#   WILL        the broker, in its name, with what it was given at the connection
#   COMMAND     a command that ends, beside the daemon (`edge-agent enroll`)
#   CLASSIFIER  a process that classifies, beside the daemon (`edge-agent infer`)
#
# Each has a file of its own, which its process holds: two that gave out numbers from one would
# overtake each other.
#
# The same number again is the same message again, as a signer gives each out once. Brokers say
# things twice and give what is retained to whoever asks; everything here is built for that, so it
# is let pass. A will is not: it is true once, and who kept it could end a device's presence as
# often as it comes back.

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from protofleet.errors import TrustError
from protofleet.util.files import OWN_FILE, Locked, lock, write_whole

DAEMON, WILL, COMMAND, CLASSIFIER = range(4)
LANES = 4
BLOCK = 1000


class Sequence:
    """A signer's numbers on one lane, for as long as it is open."""

    def __init__(
        self, folder: Path, lane: int = DAEMON, wall: Callable[[], float] = time.time
    ) -> None:
        self.lane = lane
        place = folder / f"lane-{lane}"
        try:
            self._lock = lock(place)
        except Locked as error:
            raise TrustError(
                f"{place} is in use by another process ({error.holder})",
                "one at a time speaks with this device's key here",
            ) from None
        self._path = place / "next"
        self._next = max(self._stored(), int(wall() * 1000))
        self._end = self._next

    def next(self) -> int:
        """A number that was never given out, and never will be again."""
        if self._next >= self._end:
            end = self._next + BLOCK
            write_whole(self._path, str(end).encode(), mode=OWN_FILE)
            self._end = end
        number, self._next = self._next, self._next + 1
        return number

    def close(self) -> None:
        """Another process may go on with it."""
        self._lock.close()

    def _stored(self) -> int:
        try:
            text = self._path.read_text("ascii")
        except FileNotFoundError:
            return 0
        if not text.isdigit() or len(text) > 18:
            raise TrustError(f"{self._path} holds no number", "remove it: the clock replaces it")
        return int(text)


class Numbers:
    """The highest number of every speaker and lane that was taken; `fresh` is what nobody wrote
    down yet.
    """

    def __init__(self, highest: Mapping[tuple[str, str], int] | None = None) -> None:
        self._highest = dict(highest or {})
        self.fresh: dict[tuple[str, str], int] = {}

    def check(self, speaker: str, place: str, lane: int, number: int) -> tuple[str, str]:
        """Whether this number may be taken: under what it is remembered, or `TrustError`."""
        if not 0 <= lane < LANES:
            raise TrustError(f"signature: lane {lane} is not known")
        key = speaker, f"{place} {lane}" if lane else place
        highest = self._highest.get(key, -1)
        if number < highest or (number == highest and lane == WILL):
            raise TrustError(f"signature: said before: number {number}, the last one was {highest}")
        return key

    def take(self, key: tuple[str, str], number: int) -> None:
        """It was taken: nothing below it is from now on."""
        if self._highest.get(key) != number:
            self._highest[key] = self.fresh[key] = number

    def forget(self, speaker: str) -> None:
        """Another may have this name."""
        for table in (self._highest, self.fresh):
            for key in [key for key in table if key[0] == speaker]:
                del table[key]
