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
#   no class is known yet                  nothing is said; pictures in which something moved are
#                                          put where a person may name them
#
# Whoever says an answer (`outlets`) never makes this thread wait.

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from edge_agent.cameras.feeds import CameraFeed
from edge_agent.cameras.frames import FRESH, Frame
from edge_agent.cameras.motion import cells_of
from edge_agent.cameras.regions import Pixels
from edge_agent.cameras.saying.answers import AnswerKind, SceneAnswer, place_of
from edge_agent.cameras.scenes import Scene
from edge_agent.cameras.smoothing import Held
from edge_agent.data import images
from edge_agent.inference.classifier import Answer, Classifier, InUse, Loaded
from edge_agent.recent import pictures
from edge_agent.recent.memory import View
from protofleet.errors import DataError, FleetError
from protofleet.util.logs import Log

ASKED_EVERY = 10.0  # seconds between two pictures of one scene that wait for a name
TURN = 0.5  # seconds between two looks at everything else than frames


class Remember(Protocol):
    """What keeps pictures that a person may be asked about (`recent.memory`)."""

    def add(self, now: InUse, answer: Answer, row: int, view: View) -> None:
        """One that was answered, or that nobody can answer yet."""


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
    refresh: Callable[[WatchCounts], None] = lambda counts: None  # called between frames
    each_frame: bool = False
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time


@dataclass
class Watcher:
    """Cameras by their feeds, each with its scenes."""

    classifier: Classifier
    feeds: Sequence[CameraFeed]
    scenes: Mapping[str, Sequence[Scene]]
    deps: WatcherDeps
    bell: threading.Event
    counts: WatchCounts = field(default_factory=WatchCounts)
    _loaded: Loaded | None = None
    _lost: set[str] = field(default_factory=set)
    _remarks: set[str] = field(default_factory=set)
    _ask_at: dict[str, float] = field(default_factory=dict)
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
                    self.deps.refresh(self.counts)
        finally:
            for feed in self.feeds:
                feed.stop()

    def turn(self, feed: CameraFeed) -> None:
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
            look = _Look(now, answer, row, cut, age)
            if answer.labels:
                self._answer(camera, scene, look)
            else:
                self._remark("no class is known yet: pictures are kept for a person to name")
                self._ask_for_name(camera, scene, look)

    def _answer(self, camera: str, scene: Scene, look: _Look) -> None:
        """What one look at one region comes to."""
        answer, row = look.answer, look.row
        shares = None if answer.probabilities is None else answer.probabilities[row]
        unknown = answer.unknown is not None and bool(answer.unknown[row])
        best = int((answer.scores[row] if shares is None else shares).argmax())
        if self.deps.each_frame:
            sure = None if shares is None else float(shares[best])
            label = answer.labels[best]
            one = Held(None if unknown else label, sure, label, 1)
            self.deps.say(self._said("frame", camera, scene, one, look))
        outcome = scene.smoother.step(answer.labels, shares, best, unknown)
        if outcome is None:
            return
        self.counts.answers += 1
        self.deps.say(self._said("answer", camera, scene, outcome, look))
        self._remember(place_of(camera, scene.region.name), look)

    def _ask_for_name(self, camera: str, scene: Scene, look: _Look) -> None:
        """Have it remembered, but of each scene no more than one in so many seconds."""
        now, place = self.deps.clock(), place_of(camera, scene.region.name)
        if now >= self._ask_at.get(place, now):
            self._ask_at[place] = now + ASKED_EVERY
            self._remember(place, look)

    def _remember(self, place: str, look: _Look) -> None:
        if self.deps.remember is None:
            return
        view = View(lambda: pictures.of_array(look.picture), place)
        try:
            self.deps.remember.add(look.now, look.answer, look.row, view)
        except FleetError as error:
            self._remark(f"nothing is remembered: {error}")

    def _said(
        self, kind: AnswerKind, camera: str, scene: Scene, outcome: Held, look: _Look
    ) -> SceneAnswer:
        return SceneAnswer(
            kind,
            camera,
            scene.region.name,
            self.deps.wall() - look.age,
            outcome.label,
            outcome.label is None,
            outcome.probability,
            outcome.nearest,
            outcome.frames,
            look.age,
            look.answer.state,
        )

    def _remark(self, words: str) -> None:
        """Say it once."""
        short = words[:40]
        if short not in self._remarks:
            self._remarks.add(short)
            self.deps.log.warning(words)


@dataclass(frozen=True, eq=False)
class _Look:
    """One look at one region."""

    now: InUse
    answer: Answer
    row: int
    picture: Pixels
    age: float
