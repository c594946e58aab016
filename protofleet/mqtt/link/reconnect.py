"""How long a link waits before it tries its broker again."""

from __future__ import annotations

import random
from collections.abc import Callable

from protofleet.mqtt.link.events import ANOTHER

Backoff = Callable[[int], float]  # seconds before this attempt, the first being 0

# One that only ever gets as far as the greeting is no success: it counts as an attempt, too.
STEADY = 10.0  # seconds after which a connection counts as one that worked
FIRST, LONGEST = 1.0, 60.0
SUSPICIOUS = 2  # such connections


def jittered(rng: random.Random) -> Backoff:
    """1 to 2 seconds before the first new attempt, then up to twice as long each time, 60 at most.

    Drawn from the whole range, because a thousand devices whose broker restarts must not all come
    back in the same second.
    """
    return lambda attempt: rng.uniform(FIRST, min(LONGEST, 2.0 ** (min(attempt, 10) + 1)))


class Reconnect:
    """Counts the attempts since a connection last worked."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._attempt = 0
        self._short = 0  # connections in a row that were let in and then ended soon

    def explained(self, reason: str, lasted: float | None) -> str:
        """Why a connection ended, with what it may mean after others like it. A broker gives a
        session to whoever comes last under its name, and mosquitto ends the one before without a
        word.
        """
        self._short = self._short + 1 if lasted is not None and lasted <= STEADY else 0
        if self._short < SUSPICIOUS:
            return reason
        return f"{reason}, soon after it began, again: {ANOTHER}"

    def wait(self, lasted: float) -> float:
        """Seconds before the next attempt, after a connection that was greeted so long ago."""
        if lasted > STEADY:
            self._attempt = 0
        seconds = self._backoff(self._attempt)
        self._attempt += 1
        return seconds
