"""One region of one camera as it is followed: looked at or not, and what is said of it."""

# Theory of operation
#
#   a frame in which     and before it         what is done
#   something moved      it was left alone     looked at; the answer begins anew
#   something moved      something moved       looked at
#   nothing moved        something moved       looked at; the answer begins anew, unless it is made
#                                              of that one frame: what is at rest now is not what
#                                              was on its way, and is not smoothed with it
#   nothing moved        nothing moved         looked at until the answer holds and is said,
#                                              RESTLESS times at most; then left alone
#
# So a scene that changes costs `hold` looks, or one more, after the last movement; and while it
# moves, each frame, smoothed over all that moved.

from __future__ import annotations

from edge_agent.cameras.motion import Cells, MotionGate
from edge_agent.cameras.regions import Region
from edge_agent.cameras.smoothing import Smoother

# Looks at a scene in which nothing moves and no answer holds, for each frame that answers are
# smoothed over: then it is left alone until something does.
RESTLESS = 4


class Scene:
    """A still one is looked at until its answer holds, and then no more until something moves."""

    def __init__(self, region: Region, motion: float, smooth: int, hold: int) -> None:
        self.region = region
        self._gate, self.smoother = MotionGate(motion), Smoother(smooth, hold)
        self._most, self._still = RESTLESS * max(smooth, hold), 0
        self._closed, self._moving = False, False

    def opens(self, cells: Cells) -> bool:
        """Whether this frame is to be looked at; `cells` are those of the whole picture."""
        if self._gate.moved(self.region.cut(cells)):
            if self._closed:
                self.smoother.restart()
            self._still, self._closed, self._moving = 0, False, True
            return True
        if self._moving and self.smoother.frames > 1:
            self.smoother.restart()
        self._moving = False
        self._still += 1
        self._closed = self.smoother.settled or self._still > self._most
        return not self._closed

    def looked_at(self, cells: Cells) -> None:
        """This frame was."""
        self._gate.looked_at(self.region.cut(cells))

    def look_again(self) -> None:
        """Even if nothing moves: whoever looks is another."""
        self._gate.forget()
        self._closed = True

    def forget(self) -> None:
        """The camera was away."""
        self._gate.forget()
        self.smoother.forget()
        self._still, self._closed = 0, False
