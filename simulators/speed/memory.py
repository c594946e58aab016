"""`protofleet bench memory`: what a coordinator holds for each device and each upload, and after
many rounds.

Devices are plain sockets that answer each announcement with a small upload, so that a thousand
rounds take a minute.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coordinator.service.control import ask
from protofleet import wire
from protofleet.mqtt.broker.run import running_broker
from protofleet.mqtt.topics import Topics
from protofleet.values.prototypes import Prototypes
from simulators.speed import raw
from simulators.speed.ingest import FLEET, bench_uploads, is_open, publish_all
from simulators.speed.serving import serving

CLASSES, DIM = 10, 16
PATIENCE = 120.0
# Before that caches and the allocator's arenas fill up, which is no growth with rounds.
EARLY = 50  # rounds after which growth is counted


@dataclass(frozen=True)
class MemoryRow:
    """Megabytes held by a coordinator at one time."""

    when: str
    rss_mb: float
    note: str = ""


def bench_memory(
    registered: int,
    uploads: int,
    rounds: int,
    devices: int,
    folder: Path,
    tell: Callable[[str], None],
) -> list[MemoryRow]:
    """A crowd that registers, uploads that pour in, then rounds; each with a coordinator of its
    own.
    """
    with running_broker(folder / "broker", prefer="mosquitto") as broker:
        host, port, url = broker.address.host, broker.address.port, str(broker.address)
        tell("devices")
        rows = _crowd(registered, folder / "crowd", url, host, port)
        tell("uploads")
        rows += _flood(uploads, folder / "flood", url, host, port)
        tell("rounds")
        return rows + _rounds(rounds, devices, folder / "rounds", url, host, port)


def _crowd(registered: int, folder: Path, url: str, host: str, port: int) -> list[MemoryRow]:
    folder.mkdir()
    topics = Topics("crowd")
    # One more than there will be: no round opens, and memory is that of registered devices alone.
    serve = {"min_agents": registered + 1}
    with serving(folder, url, topics.fleet, CLASSES, DIM, serve) as process:
        idle = raw.rss(process.pid)
        with raw.connected(host, port, "crowd") as connection:
            for number in range(registered):
                connection.sendall(raw.birth(topics, f"agent-{number:05d}"))
            raw.until(
                lambda: ask(folder / "data", "status")["agents_known"] == registered, PATIENCE
            )
        full = raw.rss(process.pid)
    growth = f"{1024 * (full - idle) / registered:.1f} KB a device"
    return [MemoryRow("idle", idle), MemoryRow(f"{registered:,} devices registered", full, growth)]


def _flood(uploads: int, folder: Path, url: str, host: str, port: int) -> list[MemoryRow]:
    """As fast as they can be sent: unread ones wait in the link, up to a bound, and then with the
    broker.
    """
    folder.mkdir()
    topics = Topics(FLEET)
    with serving(
        folder, url, FLEET, CLASSES, 1024, {"run": "bench", "round_timeout": 3600.0}
    ) as process:
        with raw.connected(host, port, "sleeper") as connection:
            connection.sendall(raw.birth(topics, "sleeper"))
            raw.until(lambda: is_open(folder / "data"), PATIENCE)
        idle = raw.rss(process.pid)
        base = ask(folder / "data", "show", round=1)["base"]
        publish_all(host, port, bench_uploads(uploads, base), topics, wait_for_receipts=True)
        # The kernel's own high-water mark: a look from time to time would miss it.
        peak = raw.peak(process.pid)
    growth = f"{1024 * (peak - idle) / uploads:.1f} KB an upload of 20 KB"
    return [
        MemoryRow("a round of large uploads is open", idle),
        MemoryRow(f"at most, while {uploads:,} pour in", peak, growth),
    ]


def _rounds(
    rounds: int, devices: int, folder: Path, url: str, host: str, port: int
) -> list[MemoryRow]:
    folder.mkdir()
    topics = Topics("rounds")
    agents = [f"agent-{number:03d}" for number in range(devices)]
    serve = {"run": "bench", "min_agents": devices, "rounds": rounds, "round_timeout": 60.0}
    rows: list[MemoryRow] = []
    with serving(folder, url, topics.fleet, CLASSES, DIM, serve) as process:
        announcements = raw.connected(host, port, "ear")
        announcements.sendall(raw.packet(0x82, b"\0\1" + raw.text(topics.round) + b"\0"))
        connections = {agent: raw.connected(host, port, agent) for agent in agents}
        for agent, connection in connections.items():
            connection.sendall(raw.birth(topics, agent))
        buffer, answered = bytearray(), 0
        while answered < rounds:
            opened = _announced(announcements, buffer)
            if opened is None or (opened.round or 0) <= answered:
                continue
            answered = opened.round or 0
            if answered - 1 == min(EARLY, rounds - 1):
                rows.append(
                    MemoryRow(
                        f"after {answered - 1:,} rounds of {devices} devices", raw.rss(process.pid)
                    )
                )
            _answer(connections, topics, opened)
        raw.until(lambda: ask(folder / "data", "status")["phase"] == "done", PATIENCE)
        late = raw.rss(process.pid)
        for connection in (announcements, *connections.values()):
            connection.close()
    growth = f"{100 * (late / rows[0].rss_mb - 1):+.1f} %"
    return [*rows, MemoryRow(f"after {rounds:,} rounds of {devices} devices", late, growth)]


def _announced(announcements: socket.socket, buffer: bytearray) -> wire.Envelope | None:
    """The newest round that is open, among what comes next."""
    announcements.settimeout(PATIENCE)
    buffer += announcements.recv(1 << 16)
    messages = [wire.decode(payload) for _, payload in raw.publishes(buffer) if payload]
    opened = [m.envelope for m in messages if m.envelope.t == "round" and m.body["phase"] == "open"]
    return opened[-1] if opened else None


def _answer(connections: dict[str, socket.socket], topics: Topics, opened: wire.Envelope) -> None:
    rng = np.random.default_rng(opened.round)
    number = (opened.round or 0) % 65_535 + 1
    for agent, connection in connections.items():
        parts = {
            "prototypes": Prototypes(
                np.arange(CLASSES), rng.random((CLASSES, DIM), np.float32), np.full(CLASSES, 9)
            )
        }
        envelope = wire.Envelope(
            t="upload",
            fleet=topics.fleet,
            run=opened.run,
            epoch=opened.epoch,
            agent=agent,
            boot="b",
            seq=number,
            round=opened.round,
            method=opened.method,
            base=opened.base,
        )
        connection.sendall(
            raw.upload(topics, agent, opened.round or 0, number, wire.encode(envelope, parts))
        )
