"""The broker for a machine without mosquitto: amqtt in a process of its own, for development on
loopback.

    python -m protofleet.mqtt.broker.embedded CONFIG.json

amqtt speaks MQTT 3.1.1 only and waits forever for more when a client tries 5, so each connection's
first bytes are looked at here and such a client is refused at once, as the standard says; it then
comes back with 3.1.1. Access rules are not applied: amqtt's are not to be relied on. Nothing is
kept over a restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import ssl
import sys
from pathlib import Path
from typing import Any

from amqtt.adapters import ReaderAdapter, StreamWriterAdapter
from amqtt.broker import Broker

REFUSED = bytes([0x20, 2, 0, 1])  # CONNACK: unacceptable protocol version
GATE = "default"


class Peeked(ReaderAdapter):  # type: ignore[misc]
    """A stream whose first bytes were read already."""

    def __init__(self, first: bytes, reader: asyncio.StreamReader) -> None:
        self._first, self._reader = first, reader

    async def read(self, n: int = -1) -> bytes:
        if n < 0:
            rest = await self._reader.read()
            first, self._first = self._first, b""
            return first + rest
        if self._first:
            head, self._first = self._first[:n], self._first[n:]
            return head
        # To amqtt no bytes mean that the stream has ended; a part of what it asked for it would
        # take for the whole.
        with contextlib.suppress(asyncio.IncompleteReadError):
            return await self._reader.readexactly(n)
        return b""

    def feed_eof(self) -> None:
        self._reader.feed_eof()


async def first_bytes(reader: asyncio.StreamReader) -> tuple[bytes, int]:
    """What was read, and the protocol level in it (0 if this is no CONNECT)."""
    # A fixed header of two to five bytes (the length is 1 to 4), then "MQTT" with its length of two
    # bytes, then the level: 4 is 3.1.1, 5 is 5.
    head = await reader.readexactly(2)
    while head[-1] & 0x80 and len(head) < 5:
        head += await reader.readexactly(1)
    name = await reader.readexactly(7)
    return head + name, name[6] if head[0] == 0x10 and name[:6] == b"\x00\x04MQTT" else 0


async def serve(config: dict[str, Any]) -> None:
    """Until SIGTERM or Ctrl-C."""
    plugins: dict[str, Any] = {
        "amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}
    }
    if config["passwords"] is not None:
        plugins = {
            "amqtt.plugins.authentication.FileAuthPlugin": {"password_file": config["passwords"]}
        }
    listeners: dict[str, Any] = {
        GATE: {"type": "external", "bind": f"{config['host']}:{config['port']}"}
    }
    if config["ws_port"] is not None:
        secure = (
            {}
            if config["cert"] is None
            else {"ssl": True, "certfile": config["cert"], "keyfile": config["key"]}
        )
        listeners["ws"] = {"type": "ws", "bind": f"{config['host']}:{config['ws_port']}", **secure}
    broker = Broker(config={"listeners": listeners, "plugins": plugins})

    async def admit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            first, level = await asyncio.wait_for(first_bytes(reader), 10)
            if level == 4:
                await broker.external_connected(
                    Peeked(first, reader), StreamWriterAdapter(writer), GATE
                )
            else:
                # In the words of 3.1.1, which every client of 5 understands as a no.
                writer.write(REFUSED)
                await writer.drain()
        writer.close()

    context = None
    if config["cert"] is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=config["ca"])
        context.load_cert_chain(config["cert"], config["key"])
        context.verify_mode = ssl.CERT_NONE if config["ca"] is None else ssl.CERT_REQUIRED
    await broker.start()
    server = await asyncio.start_server(admit, config["host"], config["port"], ssl=context)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    parent = os.getppid()
    # A parent that was killed cannot stop us: its children get another one, and that is seen here.
    while not stop.is_set() and os.getppid() == parent:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), 1)
    server.close()
    # Nothing is kept, so there is nothing to finish; amqtt's own shutdown waits for web sockets.
    os._exit(0)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # amqtt logs a traceback for every client that leaves badly
    asyncio.run(serve(json.loads(Path(sys.argv[1]).read_text("utf-8"))))
