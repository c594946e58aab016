"""A coordinator that does what a test says, word by word, over the real wire; and devices as real
processes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import paho.mqtt.client as mqtt

from coordinator.uploads.fuse import as_published, fuse_round
from protofleet import registry, wire
from protofleet.contract import Contract
from protofleet.exchange.state import GlobalState, Upload
from protofleet.mqtt.blobs.descriptor import BlobDescriptor, descriptor_message
from protofleet.mqtt.blobs.sender import OutgoingBlob
from protofleet.mqtt.blobs.store import IncomingBlob
from protofleet.mqtt.topics import Topics
from protofleet.recipe import Turn
from protofleet.settings.fields import to_plain

ROOT = Path(__file__).parents[2]


def until(holds: Callable[[], Any], what: str, seconds: float = 120.0) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = holds()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited {seconds} s in vain for {what}")


def listening(port: int, topics: Topics, take: Callable[[str, bytes], None]) -> mqtt.Client:
    """A coordinator's client: it takes whatever devices say."""
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    client.on_message = lambda c, u, m: take(m.topic, m.payload)
    client.connect("127.0.0.1", port)
    client.subscribe(f"{topics.prefix}/d/#", 1)
    client.loop_start()
    return client


@dataclass
class Scripted:
    """Knows no rounds: a test opens them, fuses and answers by itself."""

    port: int
    contract: Contract
    method: str
    hyper: Any
    epoch: int = 1
    chunk: int = 0  # larger states go in chunks of this size
    large: OutgoingBlob | None = None
    heard: list[tuple[str, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.topics = Topics(self.contract.fleet)
        self.recipe = registry.load(self.method)
        turn = Turn(self.contract, self.hyper, 0)
        self.state = as_published(
            self.recipe.start(turn), self.contract.wire, self.recipe.precision
        )
        self.round_of_state = 0
        self.client = listening(
            self.port, self.topics, lambda topic, payload: self.heard.append((topic, payload))
        )

    def stop(self) -> None:
        self.client.loop_stop()
        self.client.disconnect()

    def say(self, topic: str, t: str, body: Any, retain: bool = True, **envelope: Any) -> None:
        head = wire.Envelope(
            t=t, fleet=self.contract.fleet, run=self.contract.run, epoch=self.epoch, **envelope
        )
        data = wire.encode(
            head, body, precision=self.contract.wire, exceptions=self.recipe.precision
        )
        if self.chunk and t in ("global", "own") and len(data) > self.chunk:
            self.large = OutgoingBlob(data, self.chunk)
            data = descriptor_message(head, self.large.descriptor)
        self.client.publish(topic, data, 1, retain).wait_for_publish(10)

    def publish_state(self) -> None:
        at = {"round": self.round_of_state, "base": self.state.base, "method": self.method}
        self.say(self.topics.coordinator_state, "state", {"online": True, "mode": "sync"})
        self.say(self.topics.shared_state, "global", self.state.shared, **at)
        for agent, own in self.state.own.items():
            self.say(self.topics.own_state(agent), "own", own, **at)

    def open(
        self, round: int, participants: list[str] | None = None, phase: str = "open", **more: Any
    ) -> None:
        body = {
            "phase": phase,
            "contract": to_plain(self.contract),
            "hyper": to_plain(self.hyper),
            "participants": participants,
            "base_round": self.round_of_state,
            "own": bool(self.state.own),
            "talks": True,
            "deadline": 60.0,
            "quorum": 0.8,
            "packet": 131072,
            "staleness": 0,
            **more,
        }
        self.say(
            self.topics.round, "round", body, round=round, method=self.method, base=self.state.base
        )

    def messages(self, kind: str, agent: str | None = None) -> list[wire.Message]:
        found = []
        for topic, payload in list(self.heard):
            place = self.topics.parse(topic)
            if place is not None and place.kind == kind and agent in (None, place.agent):
                found.append(wire.decode(payload))
        return found

    def upload(self, agent: str, round: int, seconds: float = 120.0) -> wire.Message:
        def there() -> wire.Message | None:
            return next(
                (m for m in self.messages("upload", agent) if m.envelope.round == round), None
            )

        return until(there, f"the upload of {agent} in round {round}", seconds)

    def receipt(self, upload: wire.Message, status: str = "accepted") -> None:
        agent = str(upload.envelope.agent)
        body = {
            "digest": upload.digest,
            "round": upload.envelope.round,
            "status": status,
            "reason": "",
            "words": "",
        }
        self.say(
            self.topics.receipt(agent), "receipt", body, retain=False, round=upload.envelope.round
        )

    def fuse(self, round: int, uploads: list[wire.Message]) -> GlobalState:
        opened = [
            Upload(str(u.envelope.agent), round, str(u.envelope.base), u.body) for u in uploads
        ]
        self.state = fuse_round(
            self.recipe, Turn(self.contract, self.hyper, round), self.state, opened
        )
        self.round_of_state = round
        return self.state

    def serve_chunks(self, agent: str) -> None:
        """Answer a device that misses chunks of the large state."""
        asked = until(lambda: self.messages("chunk_request", agent), "a request for chunks")[
            -1
        ].body
        assert self.large is not None
        assert asked["digest"] == self.large.descriptor.digest
        for first, last in asked["missing"]:
            for index in range(first, last + 1):
                topic = self.topics.own_chunk(agent, asked["digest"], index)
                self.client.publish(topic, self.large.chunk(index), 1).wait_for_publish(10)

    def large_upload(self, agent: str, round: int, folder: Path) -> wire.Message:
        """Ask for every chunk of an announced upload, as a coordinator does that has none."""
        descriptor = BlobDescriptor.from_body(self.upload(agent, round).body)
        incoming = IncomingBlob(folder / "blob", descriptor, time.monotonic)
        body = {
            "digest": descriptor.digest,
            "round": round,
            "status": "missing",
            "missing": [[0, descriptor.chunks - 1]],
        }
        self.say(self.topics.receipt(agent), "receipt", body, retain=False, round=round)

        def whole() -> bytes | None:
            for topic, payload in list(self.heard):
                place = self.topics.parse(topic)
                if (
                    place is not None
                    and place.kind == "upload_chunk"
                    and place.rest[0] == descriptor.digest
                ):
                    incoming.add(int(place.rest[1]), payload)
            return incoming.payload()

        return wire.decode(until(whole, "all chunks"))


class Device:
    """`edge-agent run` as a process, with its words in a file."""

    def __init__(
        self, folder: Path, agent: str, *words: str, port: int, fleet: str = "lab"
    ) -> None:
        self.folder, self.agent = folder / agent, agent
        self.folder.mkdir(exist_ok=True)
        broker = f"mqtt://127.0.0.1:{port}"
        self.words = [
            "--id",
            agent,
            "--fleet",
            fleet,
            "--broker",
            broker,
            "--data-dir",
            str(self.folder / "kept"),
            *words,
        ]
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            command = [
                sys.executable,
                "-m",
                "edge_agent",
                "run",
                "--set",
                "limits.nice=0",
                *self.words,
            ]
            self.process = subprocess.Popen(command, stderr=log, stdout=log, cwd=ROOT)

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def status(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.folder / "kept" / "status.json").read_text())
        except (OSError, ValueError):
            return {}
        return found

    def wait(self, seconds: float = 10.0) -> int:
        assert self.process is not None
        return self.process.wait(seconds)

    def stop(self) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.terminate()
        return self.wait()


def rows_file(setup: Any, shard: Any, folder: Path) -> list[str]:
    """The flags that give a device exactly one shard of a laboratory's data."""
    path = folder / f"{shard.agent}-rows.npz"
    np.savez(path, train=shard.train, validation=shard.validation, test=shard.test)
    return [
        "--data",
        "digits",
        "--set",
        f"data.rows={path}",
        "--set",
        f"data.seed={setup.config.run.seed}",
    ]
