"""What a selector is asked to look at of one connection: only what can be dealt with now."""

from __future__ import annotations

import selectors

from protofleet.mqtt.link.stream import Stream


class StreamWatch:
    """One stream at a time; the selector is told of changes only."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._stream: Stream | None = None
        self._mask = 0

    def look(self, stream: Stream, reading: bool, writing: bool) -> None:
        """For room to write in, and for something to read."""
        mask = (selectors.EVENT_READ if reading else 0) | (selectors.EVENT_WRITE if writing else 0)
        if (self._stream, self._mask) == (stream, mask):
            return
        if self._stream is not None and self._mask:
            self._selector.unregister(self._stream)
        if mask:
            self._selector.register(stream, mask)
        self._stream, self._mask = stream, mask
