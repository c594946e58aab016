"""Rounds and versions counted, for whoever watches: since this process began, in memory alone.

The journal says what is true of a run; this says how a process is getting on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from protofleet.metrics.durations import Durations


@dataclass
class RoundTally:
    """What the core's doings come to; each number is replaced, so that any thread may read it."""

    opened: int = 0
    put_off: int = 0
    failed: int = 0
    closed: dict[str, int] = field(default_factory=dict)  # by the reason of the cut
    fusions: Durations = field(default_factory=Durations)
    versions: Durations = field(default_factory=Durations)
    clock: Callable[[], float] = time.perf_counter

    def close(self, reason: str) -> None:
        """A round was cut."""
        self.closed = {**self.closed, reason: self.closed.get(reason, 0) + 1}

    @contextmanager
    def fusing(self) -> Iterator[None]:
        """For as long as a fusion takes, whether something comes of it or not."""
        began = self.clock()
        try:
            yield
        finally:
            self.fusions = self.fusions.plus(self.clock() - began)

    @property
    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "opened": self.opened,
            "put_off": self.put_off,
            "failed": self.failed,
            "closed": dict(self.closed),
            "fusion_seconds": self.fusions.document,
            "version_seconds": self.versions.document,
        }
