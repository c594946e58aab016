"""Wakes a thread that waits for sockets: a pair of sockets, and no second byte while the first is
unread.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
from collections.abc import Iterator


class Waker:
    """Anyone may `wake`; the one who waits calls `clear` and then looks at everything there is to
    do.
    """

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._raised = self._held = False

    def fileno(self) -> int:
        return self._reader.fileno()

    def wake(self) -> None:
        if not self._raised and not self._held:
            self._raised = True
            # Full: it wakes anyway. Closed: nobody waits any more.
            with contextlib.suppress(OSError):
                self._writer.send(b"\0")

    @contextlib.contextmanager
    def later(self) -> Iterator[None]:
        """One `wake` at the end instead of all that are asked for inside."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
            self.wake()

    def clear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._reader.recv(4096)
        # Only now: with the flag down a byte may be sent, and one sent before the `recv` above
        # would be swallowed by it while the flag is left up. Nobody could wake us any more.
        self._raised = False

    def wait(self, seconds: float) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._reader, selectors.EVENT_READ)
            if selector.select(seconds):
                self.clear()

    def close(self) -> None:
        self._reader.close()
        self._writer.close()
