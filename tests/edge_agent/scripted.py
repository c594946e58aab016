"""A broker and a coordinator that does what a test says, word by word, over the real wire."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt

from coordinator.fusion import as_published, fuse_round
from protofleet import registry, wire
from protofleet.contract import Contract
from protofleet.exchange import GlobalState, Upload
from protofleet.mqtt.topics import Topics
from protofleet.recipe import Turn
from protofleet.settings import to_plain

MOSQUITTO = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/sbin")


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@contextmanager
def mosquitto(folder: Path, more: str = "", port: int = 0) -> Iterator[int]:
    port = port or free_port()
    config = folder / f"mosquitto-{port}.conf"
    config.write_text(f"listener {port} 127.0.0.1\n{more or 'allow_anonymous true'}\n")
    process = subprocess.Popen(
        [str(MOSQUITTO), "-c", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until(lambda: _answers(port), "mosquitto to listen")
        yield port
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 0.2).close()
    except OSError:
        return False
    return True


def until(holds: Callable[[], Any], what: str, seconds: float = 40.0) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = holds()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited {seconds} s in vain for {what}")


@dataclass
class Scripted:
    """Knows no rounds: a test opens them, fuses and answers by itself."""

    port: int
    contract: Contract
    method: str
    hyper: Any
    epoch: int = 1
    heard: list[tuple[str, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.topics = Topics(self.contract.fleet)
        self.recipe = registry.load(self.method)
        turn = Turn(self.contract, self.hyper, 0)
        self.state = as_published(self.recipe.start(turn), self.contract.wire, self.recipe.precision)
        self.round_of_state = 0
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        self.client.on_message = lambda c, u, m: self.heard.append((m.topic, m.payload))
        self.client.connect("127.0.0.1", self.port)
        self.client.subscribe(f"{self.topics.prefix}/d/#", 1)
        self.client.loop_start()

    def stop(self) -> None:
        self.client.loop_stop()
        self.client.disconnect()

    def say(self, topic: str, t: str, body: Any, retain: bool = True, **envelope: Any) -> None:
        head = wire.Envelope(t=t, fleet=self.contract.fleet, run=self.contract.run, epoch=self.epoch, **envelope)
        data = wire.encode(head, body, precision=self.contract.wire, exceptions=self.recipe.precision)
        self.client.publish(topic, data, 1, retain).wait_for_publish(10)

    def publish_state(self) -> None:
        at = {"round": self.round_of_state, "base": self.state.base, "method": self.method}
        self.say(self.topics.coordinator_state, "state", {"online": True, "mode": "sync"})
        self.say(self.topics.train, "global", self.state.shared, **at)
        for agent, own in self.state.own.items():
            self.say(self.topics.down(agent), "own", own, **at)

    def open(self, round: int, participants: list[str] | None = None, phase: str = "open", **more: Any) -> None:
        body = {
            "phase": phase, "contract": to_plain(self.contract), "hyper": to_plain(self.hyper),
            "participants": participants, "base_round": self.round_of_state, "own": bool(self.state.own),
            "talks": True, "deadline": 60.0, "quorum": 0.8, "packet": 131072, "staleness": 0, **more,
        }  # fmt: skip
        self.say(self.topics.round, "round", body, round=round, method=self.method, base=self.state.base)

    def messages(self, kind: str, agent: str | None = None) -> list[wire.Message]:
        found = []
        for topic, payload in list(self.heard):
            place = self.topics.parse(topic)
            if place is not None and place.kind == kind and agent in (None, place.agent):
                found.append(wire.decode(payload))
        return found

    def upload(self, agent: str, round: int, seconds: float = 40.0) -> wire.Message:
        def there() -> wire.Message | None:
            return next((m for m in self.messages("upload", agent) if m.envelope.round == round), None)

        return until(there, f"the upload of {agent} in round {round}", seconds)

    def receipt(self, upload: wire.Message, status: str = "accepted") -> None:
        agent = str(upload.envelope.agent)
        body = {"digest": upload.digest, "round": upload.envelope.round, "status": status, "reason": "", "words": ""}
        self.say(self.topics.receipt(agent), "receipt", body, retain=False, round=upload.envelope.round)

    def fuse(self, round: int, uploads: list[wire.Message]) -> GlobalState:
        opened = [Upload(str(u.envelope.agent), round, str(u.envelope.base), u.body) for u in uploads]
        self.state = fuse_round(self.recipe, Turn(self.contract, self.hyper, round), self.state, opened)
        self.round_of_state = round
        return self.state
