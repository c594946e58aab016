"""What is remembered of each picture that was answered: itself, if it is worth asking about; what
all looked like; and what is seen now.
"""

# How a program that looks at pictures uses it, one object as long as it looks:
#
#   memory = Memory(bundle, RecentBounds())
#   now = classifier.in_use
#   answer = now.look(images)
#   for row, image in enumerate(images):
#       memory.add(now, answer, row, View(lambda: pictures.of_array(frame), "door"))
#   memory.save()                      # before the process ends
#
# `memory.sights` counts answers and leaves the newest for homes and metrics (`updates.sight`); who
# has frames says so there: `memory.sights.frames(1203, dropped=17)`.
#
# `View.picture` is called for those alone that are kept or shown: it may encode a JPEG of the frame
# in full size, not of the few pixels that the extractor takes. A picture is worth asking about if
# it is unknown, if the fleet gave it less than SURE, or if there is nothing to tell either by.

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from edge_agent.inference.classifier import Answer, InUse
from edge_agent.recent import glance, poster
from edge_agent.recent.queue import SURE, AnsweredPicture, RecentBounds, RecentQueue
from edge_agent.recent.window import RecentWindow
from edge_agent.updates.sight import Sight, Sights
from protofleet.errors import DataError
from protofleet.values.prototypes import Floats

SHOWN_EVERY = 1.0  # seconds between two pictures of what is seen now


@dataclass(frozen=True)
class View:
    """A picture before it is one, and whence it came."""

    picture: Callable[[], bytes]
    source: str = ""


class Memory:
    """For each extractor that a bundle had."""

    def __init__(
        self,
        bundle: Path,
        bounds: RecentBounds | None = None,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._bundle, self._now = bundle, now
        self._queue = RecentQueue(bundle, bounds)
        self._windows: dict[str, RecentWindow] = {}
        self._shown_at = 0.0
        self.sights = Sights(bundle, now)

    def add(self, now: InUse, answer: Answer, row: int, view: View) -> None:
        """Remember one that was judged, or that nobody can judge yet."""
        at = self._now()
        worth, show = worth_asking(answer, row), at - self._shown_at >= SHOWN_EVERY
        sight = _sight(answer, row, view, at)
        if worth or show:
            sighting = _answered(now, answer.features[row], sight, view.picture())
            if show:
                self._shown_at = at
                glance.show(self._bundle, sighting)
                if sighting.picture and poster.is_wished(self._bundle):
                    poster.show(self._bundle, sighting.picture)
            if worth:
                # A full disk, or a picture beyond all bounds: looking goes on without it.
                with suppress(DataError, OSError):
                    self._queue.add(sighting)
                    sight = replace(sight, key=sighting.key)
        self.sights.add(sight)
        self._note(now, answer, row)

    def _note(self, now: InUse, answer: Answer, row: int) -> None:
        """Into the blocks that drift is told by."""
        about, feature = now.loaded.bank.about, answer.features[row]
        # What check samples tell is a share that nobody promised.
        if about.calibration is None or about.calibration.usual is None or not answer.labels:
            return
        if about.lineage not in self._windows:
            window = RecentWindow(self._bundle, about.lineage, len(feature))
            self._windows[about.lineage] = window
        label = answer.top(row, 1)[0][0]
        shared = now.engine.as_published([label], feature[None])[0]
        unknown = answer.unknown is not None and bool(answer.unknown[row])
        self._windows[about.lineage].add(shared, label, unknown)

    def save(self) -> None:
        """Before the process ends."""
        self.sights.save()
        for window in self._windows.values():
            window.save()


def worth_asking(answer: Answer, row: int) -> bool:
    """Whether a person would tell the fleet something by naming it."""
    if answer.unknown is not None and answer.unknown[row]:
        return True
    if answer.probabilities is None or not answer.labels:
        return True
    return float(answer.probabilities[row].max()) < SURE


def _sight(answer: Answer, row: int, view: View, at: float) -> Sight:
    label, probability = "", None
    if answer.labels:
        label = answer.top(row, 1)[0][0]
        if answer.probabilities is not None:
            probability = float(answer.probabilities[row, answer.labels.index(label)])
    unknown = answer.unknown is not None and bool(answer.unknown[row])
    return Sight(label, probability, unknown, view.source, at)


def _answered(now: InUse, feature: Floats, sight: Sight, picture: bytes) -> AnsweredPicture:
    lineage = now.loaded.bank.about.lineage
    return AnsweredPicture(
        picture,
        sight.label,
        sight.probability,
        sight.unknown,
        sight.at,
        sight.source,
        lineage,
        feature,
    )
