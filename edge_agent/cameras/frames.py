"""A frame as it crosses from the process that decodes to the one that classifies, and how old it
is.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from protofleet.errors import DataError

SIDE = 1920  # pixels of the longer side of what is handed on
FRESH = 1.0  # seconds: nothing older is answered
SLACK = 0.25  # seconds that a wait may take above the usual
ANEW = 1.0  # seconds by which a stream's time goes back if it begins anew
# Width, height, and the moment at which the picture was the present, by the clock that all
# processes of a machine share.
_HEAD = struct.Struct("<4sHHd")
_MARK = b"frm1"
HEAD = _HEAD.size


@dataclass(frozen=True, eq=False)
class Frame:
    """A picture, and when it was the present (`time.monotonic`)."""

    image: NDArray[np.uint8]  # [height, width, 3]
    at: float

    def age(self, now: float) -> float:
        """Seconds."""
        return now - self.at


def head_of(width: int, height: int, at: float) -> bytes:
    """What goes before a frame's pixels."""
    return _HEAD.pack(_MARK, width, height, at)


def read_head(data: bytes, now: float) -> tuple[tuple[int, int, int], float]:
    """The shape of the pixels that follow, and when they were the present; `DataError` if this is
    none of ours. A moment in the future is now: whoever decodes is not believed more than that.
    """
    mark, width, height, at = _HEAD.unpack(data)
    if mark != _MARK or not (0 < width <= SIDE and 0 < height <= SIDE) or math.isnan(at):
        raise DataError("the decoder said something else than frames")
    return (height, width, 3), min(at, now)


class StreamClock:
    """How far what is read lags behind what is sent."""

    # A packet that had to be waited for is the present, unless the wait took longer than waits of
    # this stream do: then this process may have been the one that stood still (stopped, or starved
    # of the processor) while the packet lay there. Packets that come without any wait lay there
    # before, too; how long, the stream's own time says, where packets have one (RTSP): it went on
    # by less than ours since the last packet that was the present.
    #
    #   the packet was      with a time of its own              without (MJPEG)
    #   waited for, as      lag = 0, offset := arrival − time   lag = 0
    #   usual
    #   waited for longer   arrival − time − offset             what the wait took above the usual
    #   there already       arrival − time − offset             as the packet before it
    #
    # A camera's clock that runs slow or fast does no harm, as nearly every packet of a stream that
    # is followed is waited for; one that begins anew begins the offset anew.

    def __init__(self) -> None:
        self._offset: float | None = None
        self._usual: float | None = None
        self._time, self._lag = 0.0, 0.0

    def lag(self, arrival: float, time: float | None, wait: float | None) -> float:
        """Seconds by which this packet is late; `wait` is how long it was waited for, none if it
        was there already.
        """
        usual, longer = self._usual, 0.0
        if wait is not None:
            longer = 0.0 if usual is None else wait - usual
            # A camera that slows down is learned, one long wait is not.
            step = 0.0 if usual is None else min(wait, 4 * usual + SLACK) - usual
            self._usual = wait if usual is None else usual + step / 8
        present = wait is not None and longer <= SLACK
        if time is None:
            if wait is not None:
                self._lag = 0.0 if present else longer
            return self._lag
        offset, before = arrival - time, self._time
        self._time = time
        if self._offset is None or present or offset < self._offset or time < before - ANEW:
            self._offset = offset
        return offset - self._offset
