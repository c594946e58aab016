"""Frames of cameras through a classifier, to answers that held."""

# Theory of operation
#
# One thread takes the newest frame of each camera in turn (`feeds`), and for each of its regions
#
#   nothing moved, and the answer holds    nothing: no classification, no word (`motion`, `scenes`)
#   else                                   classified, all open regions of a frame in one call
#
#   the frame, when that is done           what is done
#   older than FRESH                       dropped and counted: it is answered no more. One line
#                                          says so, with the time that a look takes
#   fresh                                  smoothed (`smoothing`); said if an answer holds that was
#                                          not said before, and put where a person may be asked
#
#   otherwise                              what is done
#   a camera is lost                       said, once; what it showed before counts no more
#   the fleet has other classes, or        taken up between two frames; all regions are looked at
#   another extractor                      again, even if nothing moves
#   no class is known yet                  nothing is classified
#
# Whoever says an answer (`outlets`) never makes this thread wait.

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from edge_agent.cameras.feeds import Feed
from edge_agent.cameras.frames import FRESH, Frame
from edge_agent.cameras.motion import cells_of
from edge_agent.cameras.regions import Pixels
from edge_agent.cameras.saying.answers import AnswerKind, SceneAnswer
from edge_agent.cameras.scenes import Scene
from edge_agent.cameras.smoothing import Held
from edge_agent.data import images
from edge_agent.inference.classifier import Answer, Classifier, InUse, Loaded
from protofleet.errors import DataError, FleetError
from protofleet.util.logs import Log

TURN = 0.5  # seconds between two looks at everything else than frames


class Remember(Protocol):
    """What keeps pictures that a person may be asked about."""

    def add(self, now: InUse, answer: Answer, row: int, picture: Pixels, camera: str) -> None:
        """One that was answered."""


@dataclass
class WatchCounts:
    """What became of frames."""

    frames: int = 0
    looks: int = 0
    late: int = 0
    answers: int = 0
    oldest: float = 0.0  # seconds, of all frames that were answered


@dataclass(frozen=True)
class WatcherDeps:
    """What a watcher is given of the world."""

    say: Callable[[SceneAnswer], None]
    log: Log
    remember: Remember | None = None
    refresh: Callable[[], None] = lambda: None  # called between frames
    each_frame: bool = False
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time


@dataclass
class Watcher:
    """Cameras by their feeds, each with its scenes."""

    classifier: Classifier
    feeds: Sequence[Feed]
    scenes: Mapping[str, Sequence[Scene]]
    deps: WatcherDeps
    bell: threading.Event
    counts: WatchCounts = field(default_factory=WatchCounts)
    _loaded: Loaded | None = None
    _lost: set[str] = field(default_factory=set)
    _remarks: set[str] = field(default_factory=set)
    _stopping: bool = False

    def stop(self) -> None:
        """End `run` soon; may be called by a signal, and so touches no lock."""
        self._stopping = True

    def run(self) -> None:
        """Until `stop`."""
        for feed in self.feeds:
            feed.start()
        try:
            refreshed = self.deps.clock()
            while not self._stopping:
                self.bell.wait(TURN)
                self.bell.clear()
                for feed in self.feeds:
                    self.turn(feed)
                if self.deps.clock() - refreshed > TURN:
                    refreshed = self.deps.clock()
                    self.deps.refresh()
        finally:
            for feed in self.feeds:
                feed.stop()

    def turn(self, feed: Feed) -> None:
        """What is new of one camera."""
        name = feed.origin.name
        frame = feed.take()
        if frame is not None:
            self._lost.discard(name)
            self.counts.frames += 1
            try:
                self._look(name, frame)
            except FleetError as error:
                self._remark(f"camera {name}: {error}")
        elif feed.lost and name not in self._lost:
            self._lost.add(name)
            for scene in self.scenes[name]:
                scene.forget()
                lost = SceneAnswer("lost", name, scene.region.name, self.deps.wall())
                self.deps.say(lost)

    def _look(self, camera: str, frame: Frame) -> None:
        now = self.classifier.in_use
        if now.loaded is not self._loaded:
            self._loaded = now.loaded
            for scene in (scene for scenes in self.scenes.values() for scene in scenes):
                scene.look_again()
        kind = now.bundle.manifest.input
        if kind.kind != "image":
            raise DataError(f"its bundle takes {kind.kind}, and frames are images")
        if not now.loaded.labels:
            self._remark("no class is known yet: nothing is answered")
            return
        cells = cells_of(frame.image)
        scenes = [scene for scene in self.scenes[camera] if scene.opens(cells)]
        if not scenes:
            return
        cuts = [np.ascontiguousarray(scene.region.cut(frame.image)) for scene in scenes]
        began = self.deps.clock()
        answer = now.look(np.stack([images.fitted(cut, kind) for cut in cuts]))
        done = self.deps.clock()
        age = frame.age(done)
        if age > FRESH:
            self.counts.late += 1
            self._remark(
                f"frames are older than {FRESH:g} s when they are answered, and dropped: "
                f"a look took {done - began:.2f} s"
            )
            return
        self.counts.looks += 1
        self.counts.oldest = max(self.counts.oldest, age)
        for row, (scene, cut) in enumerate(zip(scenes, cuts, strict=True)):
            scene.looked_at(cells)
            self._answer(camera, scene, _View(now, answer, row, cut, age))

    def _answer(self, camera: str, scene: Scene, view: _View) -> None:
        """What one look at one region comes to."""
        answer, row = view.answer, view.row
        shares = None if answer.probabilities is None else answer.probabilities[row]
        unknown = answer.unknown is not None and bool(answer.unknown[row])
        best = int((answer.scores[row] if shares is None else shares).argmax())
        if self.deps.each_frame:
            sure = None if shares is None else float(shares[best])
            label = answer.labels[best]
            look = Held(None if unknown else label, sure, label, 1)
            self.deps.say(self._said("frame", camera, scene, look, view))
        outcome = scene.smoother.step(answer.labels, shares, best, unknown)
        if outcome is None:
            return
        self.counts.answers += 1
        self.deps.say(self._said("answer", camera, scene, outcome, view))
        if self.deps.remember is not None:
            place = f"{camera}.{scene.region.name}" if scene.region.name else camera
            try:
                self.deps.remember.add(view.now, answer, row, view.picture, place)
            except FleetError as error:
                self._remark(f"nothing is remembered: {error}")

    def _said(
        self, kind: AnswerKind, camera: str, scene: Scene, outcome: Held, view: _View
    ) -> SceneAnswer:
        return SceneAnswer(
            kind,
            camera,
            scene.region.name,
            self.deps.wall() - view.age,
            outcome.label,
            outcome.label is None,
            outcome.probability,
            outcome.nearest,
            outcome.frames,
            view.age,
            view.answer.state,
        )

    def _remark(self, words: str) -> None:
        """Say it once."""
        short = words[:40]
        if short not in self._remarks:
            self._remarks.add(short)
            self.deps.log.warning(words)


@dataclass(frozen=True, eq=False)
class _View:
    """One look at one region."""

    now: InUse
    answer: Answer
    row: int
    picture: Pixels
    age: float
