"""What stands between paho and its socket: paho asks for a byte or two at a time, and sends each packet by itself.

Asking the system is dear (each time another thread may take over), so this reads as much as is there, and gathers what
is sent until `flush`.
"""

from __future__ import annotations

import contextlib
import ssl
from typing import Any

READ = 2**18
HELD = 2**18  # bytes that wait to leave, above which nothing more is taken but acknowledgements
LATER = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Stream:
    """A socket that does not block, with a buffer for either direction."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self._in, self._at = b"", 0
        self._out = bytearray()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    @property
    def waiting(self) -> bool:
        """Whether something is still to leave."""
        return bool(self._out)

    @property
    def full(self) -> bool:
        """Whether so much is still to leave that more had better wait."""
        return len(self._out) >= HELD

    def pending(self) -> int:
        """Bytes that are here already, which `select` does not see."""
        below = getattr(self._sock, "pending", None)
        return len(self._in) - self._at + (0 if below is None else int(below()))

    def recv(self, size: int) -> bytes:
        """At most so many bytes, as of any socket."""
        if self._at == len(self._in):
            self._in, self._at = self._sock.recv(READ), 0
        piece = self._in[self._at : self._at + size]
        self._at += len(piece)
        return piece

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
        """Send what the system takes now; that a connection is gone shows when it is read."""
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
