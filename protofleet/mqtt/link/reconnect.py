"""How long a link waits before it tries its broker again."""

from __future__ import annotations

import random
from collections.abc import Callable

Backoff = Callable[[int], float]  # seconds before this attempt, the first being 0

# One that only ever gets as far as the greeting is no success: it counts as an attempt, too.
STEADY = 10.0  # seconds after which a connection counts as one that worked
FIRST, LONGEST = 1.0, 60.0


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

    def wait(self, lasted: float) -> float:
        """Seconds before the next attempt, after a connection that was greeted so long ago."""
        if lasted > STEADY:
            self._attempt = 0
        seconds = self._backoff(self._attempt)
        self._attempt += 1
        return seconds
