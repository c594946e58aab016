"""Whether anything moved in a picture since it was last looked at."""

# Theory of operation
#
# A frame is made small: cells of a grid ACROSS wide, each the mean grey of some hundred pixels, in
# which a sensor's noise of five levels is half a level. Against the reference, the cells as they
# were when the picture was last looked at:
#
#   Δ       cells − reference, less the median of that: a lamp that is switched on, and a camera
#           that sets its exposure anew, change all cells by nearly the same
#   moved   more than a share (`[camera] motion`) of a region's cells have |Δ| > STEP
#
# The reference is then
#
#   the picture is looked at    what is there now
#   it is not                   a little (DRIFT) nearer to what is there: the sun's way over a wall
#                               takes minutes and never adds up to motion; what comes into the
#                               picture within some seconds does
#
# Each region has a reference of its own, for each is looked at by itself.

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Cells = NDArray[np.float32]
ACROSS = 128  # cells
STEP = 10.0  # grey levels of 255
DRIFT = 0.02  # of the difference, each frame


def cells_of(image: NDArray[np.uint8]) -> Cells:
    """The grid of an RGB picture."""
    from PIL import Image

    small = Image.fromarray(image).reduce(max(1, image.shape[1] // ACROSS))
    return np.asarray(small.convert("L"), np.float32)


class MotionGate:
    """Of one region; at a share of 0 everything moves."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._reference: Cells | None = None

    def moved(self, cells: Cells) -> bool:
        """Whether this picture differs from the one that was last looked at."""
        before = self._reference
        if before is None or before.shape != cells.shape or not self._share:
            return True
        change = cells - before
        change -= np.median(change)
        if float(np.mean(np.abs(change) > STEP)) > self._share:
            return True
        self._reference = before + np.float32(DRIFT) * (cells - before)
        return False

    def looked_at(self, cells: Cells) -> None:
        """This one was."""
        self._reference = cells

    def forget(self) -> None:
        """Whatever comes next has moved."""
        self._reference = None
