"""What stands between paho and its socket: paho asks for a byte or two at a time, and sends each
packet by itself.

Asking the system is dear (each time another thread may take over), so this reads as much as is
there, and gathers what is sent until `flush`. It knows where packets begin, so that plain
publications can be taken out before paho sees them.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator
from typing import Any

from protofleet.mqtt.link import packets
from protofleet.mqtt.link.packets import Delivery

READ = 2**17  # bytes asked for at a time; packets larger than this go to paho in pieces
UNSENT = 2**18  # bytes that wait to leave, above which nothing more is taken but acknowledgements
LATER = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Stream:
    """A socket that does not block, with a buffer for either direction."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self._in, self._at = b"", 0
        # Bytes to come of a packet that paho has begun to read. While there are any, what stands at
        # the front is the middle of a packet, and must not be taken for the head of one.
        self._begun = 0
        self._over: OSError | bool = False  # nothing more will come: it ended, or broke
        self._out = bytearray()

    # paho asks a socket for a few things more (`fileno`, `setblocking`, TLS details).
    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    # in

    def fill(self) -> None:
        """Read what is there; how a connection ends is left for `recv` to tell."""
        try:
            more = self._sock.recv(READ)
        except LATER:
            return
        except OSError as error:
            self._over = error
            return
        self._over = not more
        self._in, self._at = self._in[self._at :] + more, 0

    @property
    def ready(self) -> bool:
        """Whether the packet at the front can be dealt with: it is whole, or large and taken in
        pieces, or the last.
        """
        if self._over:
            return True
        if self._begun:
            return self._at < len(self._in)
        frame = packets.frame(self._in, self._at)
        return frame is not None and (frame[1] <= len(self._in) or frame[1] - self._at > READ)

    @property
    def pending(self) -> bool:
        """Whether something is here that `select` does not see."""
        below = getattr(self._sock, "pending", None)
        return self.ready or (below is not None and below() > 0)

    def deliveries(self, five: bool) -> Iterator[Delivery]:
        """Plain publications at the front."""
        while not self._begun:
            delivery = packets.delivery(self._in, self._at, five)
            if delivery is None:
                return
            # Before it is handed out: whoever stops in between has it and does not get it twice.
            self._at = delivery.end
            yield delivery

    def recv(self, size: int) -> bytes:
        """At most so many bytes of the packet at the front, as of any socket."""
        if not self._begun:
            # Not before a packet is whole: a plain one would go the slow way through paho, though
            # `deliveries` can take it out as soon as its last byte is here.
            if not self.ready:
                raise BlockingIOError
            frame = packets.frame(self._in, self._at)
            self._begun = (frame[1] if frame else len(self._in)) - self._at
        elif self._at == len(self._in):
            self.fill()
        piece = self._in[self._at : self._at + min(size, self._begun)]
        self._at += len(piece)
        self._begun -= len(piece)
        if piece:
            return piece
        if isinstance(self._over, OSError):
            raise self._over
        if not self._over:
            raise BlockingIOError
        return b""

    # out

    @property
    def waiting(self) -> bool:
        """Whether something is still to leave."""
        return bool(self._out)

    @property
    def full(self) -> bool:
        """Whether so much is still to leave that more had better wait."""
        return len(self._out) >= UNSENT

    def send(self, data: bytes | bytearray) -> int:
        """All of it, or `BlockingIOError`."""
        if self.full:
            raise BlockingIOError
        self._out += data
        return len(data)

    def put(self, data: bytes) -> None:
        """Whole packets that do not wait: there are no more of them than were asked for."""
        self._out += data

    def flush(self) -> None:
        """Send what the system takes now; that a connection broke shows when it is read."""
        try:
            while self._out:
                del self._out[: self._sock.send(self._out)]
        except LATER:
            return
        except OSError:
            self._out.clear()

    def close(self) -> None:
        """The last words leave if they can."""
        with contextlib.suppress(OSError):
            self.flush()
        self._sock.close()
