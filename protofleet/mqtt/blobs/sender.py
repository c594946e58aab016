"""Payloads too large for one packet: a slip in their place, and the bytes in numbered chunks under
their sha256.

Nothing here talks to a broker. The sender has an `Outgoing` and a `Sending`, which keeps a few
chunks on their way; the receiver has a `Spool` on disk that gathers chunks in any order and hands
the payload out only when its hash fits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

from protofleet.errors import BlobError, LinkBusy
from protofleet.mqtt.blobs.descriptor import (
    BlobDescriptor,
)

if TYPE_CHECKING:
    from protofleet.mqtt.link.events import Ticket


class OutgoingBlob:
    """A payload to be fetched in chunks."""

    def __init__(self, payload: bytes, chunk: int) -> None:
        self._payload = memoryview(payload)
        self.slip = BlobDescriptor(sha256(payload).hexdigest(), len(payload), chunk)

    def chunk(self, index: int) -> bytes:
        if not 0 <= index < self.slip.chunks:
            raise BlobError(f"chunk {index} of {self.slip.chunks} does not exist")
        return bytes(self._payload[index * self.slip.chunk : (index + 1) * self.slip.chunk])


class Publisher(Protocol):
    """As much of a link as sending needs."""

    def publish(
        self, topic: str, payload: bytes, *, qos: int = 1, tell: bool = False
    ) -> Ticket: ...


class BlobSender:
    """Sends the chunks somebody misses, a window at a time; call `pump` whenever the link reports
    `Delivered`.
    """

    def __init__(self, parcel: OutgoingBlob, topic: Callable[[int], str], window: int = 4) -> None:
        self.parcel = parcel
        self._topic, self._window = topic, window
        self._queue: deque[int] = deque()
        self._under_way: dict[int, Ticket] = {}

    @property
    def done(self) -> bool:
        return not self._queue and not self._under_way

    def want(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Send these as well; a chunk that waits or is under way is not sent twice."""
        known = {*self._queue, *self._under_way}
        for first, last in ranges:
            self._queue.extend(index for index in range(first, last + 1) if index not in known)

    def pump(self, link: Publisher) -> bool:
        """Hand over what the window allows; True once everything was acknowledged."""
        for index in [index for index, ticket in self._under_way.items() if ticket.done]:
            del self._under_way[index]
        while self._queue and len(self._under_way) < self._window:
            index = self._queue[0]
            try:
                ticket = link.publish(
                    self._topic(index), self.parcel.chunk(index), qos=1, tell=True
                )
            except LinkBusy:
                break
            self._queue.popleft()
            self._under_way[index] = ticket
        return self.done
