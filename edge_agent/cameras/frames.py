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
    """How far what is read lags behind what is sent, where a stream's packets say their time."""

    # A packet that had to be waited for is the present: nothing else was there to be read. Packets
    # that come without any wait were there before; how long, the stream's own time says: it went on
    # by less than ours since the last packet that was waited for.
    #
    #   waited for     lag = 0, and offset := arrival − time
    #   there already  lag = arrival − time − offset, not less than 0
    #
    # A camera's clock that runs slow or fast does no harm, as nearly every packet of a stream that
    # is followed is waited for.

    def __init__(self) -> None:
        self._offset: float | None = None

    def lag(self, arrival: float, time: float | None, waited: bool) -> float:
        """Seconds by which this packet is late."""
        if time is None:
            return 0.0
        offset = arrival - time
        if waited or self._offset is None or offset < self._offset:
            self._offset = offset
            return 0.0
        return offset - self._offset
