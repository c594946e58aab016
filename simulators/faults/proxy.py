"""A network one can break: a TCP proxy in user space between clients and a broker.

It cuts, falls silent, delays and slows down, as told by method calls from any thread. Silence is
that of a lost route: nobody gets an error, and what was sent meanwhile arrives when it ends,
because both ends speak TCP.
"""

# Theory of operation
#
#     client --- reader -> queue -> writer --- broker        way "up"
#     client --- writer <- queue <- reader --- broker        way "down"
#
# One asyncio loop in a thread of its own carries all connections. Calls come from other threads and
# are handed to the loop, and return when it has carried them out: a case may go on at once.
#
#     call            what the two ends notice
#     cut             a reset, at once
#     refuse          a reset at every attempt to connect; what is connected stays
#     silence         nothing at all, until a keep-alive of their own runs out
#     delay, limit    latency; a narrow line
#     heal            all of it ends; what was sent in silence arrives
#
# - A reset is made by closing with SO_LINGER of zero. A plain close would send a polite end, which
#   clients handle by quite other code.
# - Silence stops the writers. The queue fills, the reader stops, the sender's window closes, and
#   its kernel keeps the rest: just what happens when a route is lost. Nothing may be thrown away,
#   since TCP would send it again.
# - A delay is a time on each piece and not a pause after each, or it would limit the speed as well.
# - Bytes are counted before they are written: whoever has received a byte finds it counted.

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Literal, Self

Way = Literal["up", "down"]  # to the broker, from the broker
PIECE = 16 * 1024
MOST_PIECES = 64  # pieces kept while they are delayed


class Proxy:
    """Listens on a free port of `host` for as long as the `with` block lasts."""

    def __init__(
        self, target_port: int, target_host: str = "127.0.0.1", host: str = "127.0.0.1"
    ) -> None:
        self._target, self._host = (target_host, target_port), host
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._up = threading.Event()
        self._writers: set[asyncio.StreamWriter] = set()
        self._open: dict[Way, asyncio.Event] = {}
        self._delay = 0.0
        self._rate: float | None = None
        self._refusing = False
        self.port = 0
        self.connections = 0
        self.carried: dict[Way, int] = {"up": 0, "down": 0}

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._up.wait(10):
            raise OSError("the proxy does not start")
        return self

    def __exit__(self, *_: object) -> None:
        self._ask(self._loop.stop)
        self._thread.join(10)

    def cut(self) -> None:
        """Reset every connection there is; new ones are welcome."""
        self._ask(self._abort)

    def refuse(self, on: bool = True) -> None:
        """Reset new connections as well, or let them in again."""
        self._ask(lambda: setattr(self, "_refusing", on))

    def silence(self, *ways: Way) -> None:
        """Carry nothing these ways (both, if none is named) until `heal`."""
        stopped: tuple[Way, ...] = ways or ("up", "down")

        def stop() -> None:
            for way in stopped:
                self._open[way].clear()

        self._ask(stop)

    def heal(self) -> None:
        """No silence, no delay, no limit, no refusals."""
        self._ask(self._heal)

    def delay(self, seconds: float) -> None:
        """Every byte takes this much longer, each way."""
        self._ask(lambda: setattr(self, "_delay", seconds))

    def limit(self, bytes_per_second: float | None) -> None:
        """The speed of each connection, each way."""
        self._ask(lambda: setattr(self, "_rate", bytes_per_second))

    def _ask(self, what: Callable[[], object]) -> None:
        """Do it on the proxy's thread, and wait until it is done."""
        done = threading.Event()

        def do() -> None:
            what()
            done.set()

        self._loop.call_soon_threadsafe(do)
        done.wait(10)

    def _abort(self) -> None:
        for writer in self._writers:
            _reset(writer)

    def _heal(self) -> None:
        for event in self._open.values():
            event.set()
        self._delay, self._rate, self._refusing = 0.0, None, False

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._open = {"up": asyncio.Event(), "down": asyncio.Event()}
        self._heal()
        server = self._loop.run_until_complete(asyncio.start_server(self._come_in, self._host, 0))
        self.port = server.sockets[0].getsockname()[1]
        self._up.set()
        self._loop.run_forever()
        server.close()
        self._abort()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.01))
        self._loop.close()

    async def _come_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self._refusing:
            _reset(writer)
            return
        try:
            there, back = await asyncio.open_connection(*self._target)
        except OSError:
            _reset(writer)
            return
        ends = {writer, back}
        self._writers |= ends
        try:
            ways = [self._carry("up", reader, back), self._carry("down", there, writer)]
            tasks = [asyncio.ensure_future(way) for way in ways]
            with contextlib.suppress(asyncio.CancelledError):  # the proxy stops
                await asyncio.wait(tasks, return_when="FIRST_COMPLETED")
            for task in tasks:
                task.cancel()
        finally:
            self._writers -= ends
            for end in ends:
                end.close()

    async def _carry(
        self, way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """One way of one connection, until either end is gone."""
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(MOST_PIECES)
        give = asyncio.ensure_future(self._give(way, pieces, writer))
        try:
            with contextlib.suppress(OSError):
                while data := await reader.read(PIECE):
                    await pieces.put((time.monotonic() + self._delay, data))
                await pieces.put((0.0, b""))
                await give
        finally:
            give.cancel()

    async def _give(
        self, way: Way, pieces: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while True:
                at, data = await pieces.get()
                if not data:
                    return
                await asyncio.sleep(max(0.0, at - time.monotonic()))
                await self._open[way].wait()
                self.carried[way] += len(
                    data
                )  # before the write: who has heard a byte finds it counted
                writer.write(data)
                await writer.drain()
                if self._rate is not None:
                    await asyncio.sleep(len(data) / self._rate)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close so that the other end gets a reset and not a polite end."""
    sock = writer.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
