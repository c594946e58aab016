"""What came in and was not looked at yet: one queue from the link's thread to its owner, bounded in
messages and bytes.

`SimpleQueue` because its `put` may be called by a signal handler at any moment, which no lock of
our own allows. The thread that fills it and the one that empties it each write their own counters,
so none needs a lock.
"""

from __future__ import annotations

from queue import Empty, SimpleQueue

from protofleet.mqtt.link.events import Arrival, Event

BATCH = 256  # events one poll returns at most
STATUSES = 1000  # events beside arrivals that are kept when nobody looks


class Inbox:
    """Events in the order they happened."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._queue: SimpleQueue[Event | None] = SimpleQueue()
        # Two pairs of counters and not one that goes up and down: each has a single writer. What is
        # read of the other's pair may be stale, which makes the bound late by a message, not wrong.
        self._put_count = self._put_bytes = 0  # the link's
        self._read_count = self._read_bytes = 0  # the owner's
        self.dropped = 0
        self.paused = False

    @property
    def full(self) -> bool:
        """Whether the link should stop reading."""
        return (
            self._put_count - self._read_count >= self._most
            or self._put_bytes - self._read_bytes >= self._most_bytes
        )

    def pause(self) -> bool:
        """Whether to stop reading; if so, whoever takes sees `paused` and tells the link when there
        is room.
        """
        if not self.full:
            self.paused = False
            return False
        # Up first, then look again: it may have been emptied between the two, by an owner that saw
        # no flag yet, and nobody would ever tell the link to read on.
        self.paused = True
        self.paused = self.full
        return self.paused

    def arrived(self, arrival: Arrival) -> None:
        # QoS 0 may fill one half only: QoS 1 is not dropped, so it needs the other to itself.
        half = self._put_count - self._read_count >= self._most // 2
        if arrival.qos == 0 and (
            half or self._put_bytes - self._read_bytes >= self._most_bytes // 2
        ):
            self.dropped += 1
            return
        self._put_count += 1
        self._put_bytes += len(arrival.payload)
        self._queue.put(arrival)

    def put_status(self, event: Event) -> None:
        """Anything but an arrival; dropped when nobody has looked for very long."""
        if self._queue.qsize() < self._most + STATUSES:
            self._queue.put(event)

    def wake(self) -> None:
        """End a `take`; may be called by a signal handler."""
        self._queue.put(None)

    def take(self, timeout: float | None) -> list[Event]:
        """Wait for the first event, then return all that are there, up to a batch."""
        events: list[Event] = []
        size = count = 0
        try:
            event = self._queue.get(block=timeout != 0, timeout=timeout)
            while True:
                if event is not None:
                    events.append(event)
                    if isinstance(event, Arrival):
                        count += 1
                        size += len(event.payload)
                    if len(events) == BATCH:
                        break
                event = self._queue.get_nowait()
        except Empty:
            pass
        self._read_count += count
        self._read_bytes += size
        return events
