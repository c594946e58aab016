"""Payloads too large for one packet, on their way out: the bytes in numbered chunks under their
sha256, a few of them under way at a time.

Nothing here decides what is sent: the receiver asks for the chunks it misses. How the two work
together is told in `receiver`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

from protofleet.errors import BlobError, LinkBusy
from protofleet.mqtt.blobs.descriptor import BlobDescriptor

if TYPE_CHECKING:
    from protofleet.mqtt.link.events import Ticket


class OutgoingBlob:
    """A payload to be fetched in chunks."""

    def __init__(self, payload: bytes, chunk: int) -> None:
        self._payload = memoryview(payload)  # a chunk is then the only copy that is made
        self.descriptor = BlobDescriptor(sha256(payload).hexdigest(), len(payload), chunk)

    def chunk(self, index: int) -> bytes:
        if not 0 <= index < self.descriptor.chunks:
            raise BlobError(f"chunk {index} of {self.descriptor.chunks} does not exist")
        size = self.descriptor.chunk
        return bytes(self._payload[index * size : (index + 1) * size])


class Publisher(Protocol):
    """As much of a link as sending needs."""

    def publish(
        self, topic: str, payload: bytes, *, qos: int = 1, tell: bool = False
    ) -> Ticket: ...


class BlobSender:
    """Sends the chunks somebody misses, a window at a time; call `pump` whenever the link reports
    `Delivered`.
    """

    def __init__(self, blob: OutgoingBlob, topic: Callable[[int], str], window: int = 4) -> None:
        self.blob = blob
        self._topic, self._window = topic, window
        self._queue: deque[int] = deque()
        self._under_way: dict[int, Ticket] = {}

    @property
    def done(self) -> bool:
        return not self._queue and not self._under_way

    def want(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Send these as well; a chunk that waits or is under way is not sent twice."""
        # A receiver that hears nothing asks again; by then most of it may just be slow to leave.
        pending = {*self._queue, *self._under_way}
        for first, last in ranges:
            self._queue.extend(index for index in range(first, last + 1) if index not in pending)

    def pump(self, link: Publisher) -> bool:
        """Hand over what the window allows; True once everything was acknowledged."""
        for index in [index for index, ticket in self._under_way.items() if ticket.done]:
            del self._under_way[index]
        # A window, so that small messages still get through beside a large payload, and so that a
        # cut costs no more than a window sent twice.
        while self._queue and len(self._under_way) < self._window:
            index = self._queue[0]
            try:
                ticket = link.publish(self._topic(index), self.blob.chunk(index), qos=1, tell=True)
            except LinkBusy:
                break
            self._queue.popleft()
            self._under_way[index] = ticket
        return self.done
