"""The newest frame of a camera, whatever becomes of the camera."""

# Theory of operation
#
# A thread a camera asks its player for a frame, puts it where the newest frame lies, and waits:
#
#   the frame was taken       until `every` is over since it was asked for, then asks again
#   nobody takes it           for RENEW, or `every` where that is longer; then asks again, and the
#                             newer frame takes the place of the older
#   the source is lost        says so once, tries again after 1 to 2 s, then up to twice as long
#                             each time, at most a minute (`protofleet.mqtt.link.reconnect`), and
#                             says once that it is there again
#
# So there is one frame a camera at most, no older than RENEW and what it takes to decode one.

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from edge_agent.cameras.frames import Frame
from edge_agent.cameras.origins import Origin
from edge_agent.cameras.player import Player
from protofleet.errors import FleetError
from protofleet.mqtt.link.reconnect import Backoff, Reconnect
from protofleet.util.logs import Log

RENEW = 0.25  # seconds


@dataclass(frozen=True)
class FeedTerms:
    """How a camera is followed."""

    every: float
    opened: Callable[[Origin], Player]
    backoff: Backoff
    log: Log


class CameraFeed:
    """A camera that is followed from `start` to `stop`; `bell` is set when there is news."""

    def __init__(self, origin: Origin, terms: FeedTerms, bell: threading.Event) -> None:
        self.origin, self._terms, self._bell = origin, terms, bell
        self._change = threading.Condition()
        self._newest: Frame | None = None
        self._player: Player | None = None
        self._stopped = threading.Event()
        self._lost_at: float | None = None
        self.arrived = 0  # frames that were handed over by its player
        self._thread = threading.Thread(target=self._follow, name=f"camera-{origin.name}")
        self._thread.daemon = True

    @property
    def lost(self) -> bool:
        """Whether there are no frames just now, though there were, or ought to be."""
        return self._lost_at is not None

    def start(self) -> None:
        """Follow it."""
        self._thread.start()

    def stop(self) -> None:
        """Follow it no more."""
        with self._change:
            self._stopped.set()
            if self._player is not None:
                self._player.interrupt()
            self._change.notify_all()
        self._thread.join(10.0)

    def take(self) -> Frame | None:
        """The newest frame, if nobody took it yet."""
        with self._change:
            frame, self._newest = self._newest, None
            self._change.notify_all()
        return frame

    def _follow(self) -> None:
        again = Reconnect(self._terms.backoff)
        while not self._stopped.is_set():
            began, first = time.monotonic(), self.arrived
            try:
                self._play()
            except FleetError as error:
                words = str(error)
            except Exception as error:  # a thread that ends would never see anything again
                words = f"{error!r}"[:200]
            else:
                return
            if self._stopped.is_set():
                return
            self._lose(words)
            lasted = time.monotonic() - began if self.arrived > first else 0.0
            self._pause(time.monotonic() + again.wait(lasted), lambda: False)

    def _play(self) -> None:
        """Until it is lost, or this is stopped."""
        player = self._terms.opened(self.origin)
        with self._change:
            self._player = player
            if self._stopped.is_set():
                player.interrupt()
        try:
            while not self._stopped.is_set():
                began = time.monotonic()
                frame = player.next()
                if frame is None:
                    self._arrive()  # it is there, and has nothing new
                    continue
                self._arrive(frame)
                every = self._terms.every
                self._pause(began + max(every, RENEW), lambda: self._newest is None)
                self._pause(began + every, lambda: False)
        finally:
            with self._change:
                self._player = None
            player.close()

    def _pause(self, until: float, enough: Callable[[], bool]) -> None:
        with self._change:
            self._change.wait_for(
                lambda: self._stopped.is_set() or enough(), max(0.0, until - time.monotonic())
            )

    def _arrive(self, frame: Frame | None = None) -> None:
        lost, self._lost_at = self._lost_at, None
        if lost is not None:
            seconds = f"{time.monotonic() - lost:.0f}"
            self._terms.log.info(f"camera {self.origin.name} is there again", after_s=seconds)
        if frame is not None:
            self.arrived += 1
            with self._change:
                self._newest = frame
            self._bell.set()

    def _lose(self, words: str) -> None:
        with self._change:
            self._newest = None
        if self._lost_at is None:
            self._lost_at = time.monotonic()
            self._terms.log.warning(
                f"camera {self.origin.name}: {words}; trying on", address=self.origin.shown
            )
        self._bell.set()
