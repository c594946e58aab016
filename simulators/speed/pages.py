"""`protofleet bench pages`: what a page that is looked at, flooded or killed costs a round.

Everything is real: a broker, a coordinator, its page as a process. Devices are one client here that
answers every announcement at once, so that a round is little but the coordinator's own work.
"""

# Theory of operation
#
# The question is what the page takes from its fleet. So rounds of one coordinator are measured in
# blocks, and the blocks of all conditions take turns: a machine has moods, and the medians of what
# was measured within seconds of each other are compared.
#
#     condition   beside the rounds
#     alone       no page
#     looked at   a page, and one that follows it as a browser does: the stream, and every document
#                 whenever it is another
#     flooded     a page, and requests to it by four connections as fast as it answers
#     killed      a page that is killed as soon as it answers, and started again
#
# A round is from one announcement to the next, as the devices hear them; the coordinator's
# processor time in it says what the page takes where the machine has other things to do, too.
# Whoever floods is a process of the page's own priority: it stands for another machine.

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from io import StringIO
from itertools import pairwise
from pathlib import Path
from queue import Empty, SimpleQueue
from statistics import median

import numpy as np
import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from protofleet import wire
from protofleet.errors import FleetError
from protofleet.mqtt.broker.run import RunningBroker, running_broker
from protofleet.mqtt.topics import Topics
from protofleet.pages.child import Child
from protofleet.util.logs import Log
from protofleet.values.prototypes import Prototypes
from protofleet.wire.codes import RoundPhase
from simulators.speed import raw
from simulators.speed.serving import serving

FLEET, CLASSES, DIM = "pages", 10, 64
TURNS, BLOCK, FIRST = 5, 40, 5  # rounds of a block, and those before that are not counted
PATIENCE = 120.0
DOCUMENTS = ("status", "fleet", "classes", "learning", "rounds")
CONDITIONS = ("alone", "looked at", "flooded", "killed")


@dataclass(frozen=True)
class PageCost:
    """A round under one condition, in milliseconds, and what was asked of the page meanwhile."""

    condition: str
    rounds: int
    round_ms: float
    more_ms: float  # than alone, in the median of neighbouring blocks
    cpu_ms: float  # of the coordinator's process, in the mean
    more_cpu_ms: float
    requests: int
    refused: int


@dataclass
class Beside:
    """What goes on beside the rounds of a block."""

    requests: int = 0
    refused: int = 0
    process: subprocess.Popen[str] | None = None

    def goes_on(self) -> bool:
        """Whether it takes longer than a block."""
        return self.process is not None and self.process.poll() is None


def bench_pages(
    requests: int, devices: int, port: int, folder: Path, tell: Callable[[str], None]
) -> list[PageCost]:
    """TURNS blocks of each condition; a flooded one lasts until its share of the requests came."""
    blocks: dict[str, list[list[float]]] = {name: [] for name in CONDITIONS}
    cpu = dict.fromkeys(CONDITIONS, 0.0)
    asked = dict.fromkeys(CONDITIONS, 0)
    refused = dict.fromkeys(CONDITIONS, 0)
    serve = {"run": "bench", "min_agents": devices, "round_timeout": 600.0}
    with (
        running_broker(folder / "broker", prefer="mosquitto") as broker,
        serving(folder, str(broker.address), FLEET, CLASSES, DIM, serve) as service,
        answering(broker, devices) as announced,
    ):
        _block(announced, FIRST)
        share = -(-requests // TURNS)
        for turn in range(1, TURNS + 1):
            for name in CONDITIONS:
                with _condition(name, folder / "data", port, share) as beside:
                    _block(announced, FIRST)
                    used = raw.cpu(service.pid)
                    block = _block(announced, BLOCK)
                    while beside.goes_on():
                        block += _block(announced, BLOCK)
                    cpu[name] += raw.cpu(service.pid) - used
                    blocks[name].append(block)
                asked[name] += beside.requests
                refused[name] += beside.refused
            tell(f"turn {turn} of {TURNS}: {asked['flooded']} requests")
    middles = {name: [median(block) for block in own] for name, own in blocks.items()}
    rounds = {name: sum(map(len, own)) for name, own in blocks.items()}
    used_ms = {name: 1e3 * cpu[name] / rounds[name] for name in CONDITIONS}
    return [
        PageCost(
            name,
            rounds[name],
            median(middles[name]),
            median(a - b for a, b in zip(middles[name], middles["alone"], strict=True)),
            used_ms[name],
            used_ms[name] - used_ms["alone"],
            asked[name],
            refused[name],
        )
        for name in CONDITIONS
    ]


@contextmanager
def answering(broker: RunningBroker, devices: int) -> Iterator[SimpleQueue[float]]:
    """Devices that answer at once; when each round was announced."""
    topics, announced = Topics(FLEET), SimpleQueue[float]()
    vectors = np.random.default_rng(0).normal(size=(CLASSES, DIM))
    names = [f"device-{n}" for n in range(devices)]
    newest = 0

    def take(client: mqtt.Client, _: object, arrival: mqtt.MQTTMessage) -> None:
        nonlocal newest
        message = wire.decode(bytes(arrival.payload))
        envelope = message.envelope
        number = envelope.round or 0
        if message.body["phase"] != RoundPhase.OPEN or number <= newest:
            return
        announced.put(time.perf_counter())
        newest = number
        for n, name in enumerate(names):
            points = Prototypes(
                np.arange(CLASSES), np.roll(vectors, n + number, axis=1), np.full(CLASSES, 60)
            )
            own = wire.Envelope(
                "upload", FLEET, envelope.run, envelope.epoch, name, "b", number, number,
                "fedproto", envelope.base,
            )  # fmt: skip
            client.publish(topics.upload(name, number), wire.encode(own, {"prototypes": points}), 1)

    client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id="bench-devices")
    client.on_message = take
    client.connect(broker.address.host, broker.address.port)
    client.subscribe(topics.round, 1)
    client.loop_start()
    try:
        for name in names:
            birth = wire.Envelope("birth", FLEET, agent=name, boot="b")
            body = {"online": True, "version": "bench", "wire": [wire.VERSION]}
            client.publish(topics.state(name), wire.encode(birth, body), 1, True)
        yield announced
    finally:
        client.loop_stop()
        client.disconnect()


def _block(announced: SimpleQueue[float], rounds: int) -> list[float]:
    """Milliseconds from one announcement to the next, of so many that are still to come."""
    while not announced.empty():
        announced.get()
    times = []
    for _ in range(rounds + 1):
        try:
            times.append(announced.get(timeout=PATIENCE))
        except Empty:
            raise FleetError("rounds do not go on") from None
    return [1e3 * (b - a) for a, b in pairwise(times)]


@contextmanager
def _condition(name: str, data: Path, port: int, share: int) -> Iterator[Beside]:
    """What goes on beside the rounds; its figures are there at the end."""
    beside = Beside()
    if name == "alone":
        yield beside
        return
    command = [sys.executable, "-m", "coordinator", "web", "--child", "--data-dir", str(data)]
    with Child([*command, "--http", f"127.0.0.1:{port}"], _silent()) as page:
        raw.until(lambda: _answers(port), PATIENCE)
        if name == "flooded":
            yield _flooding(port, share, beside)
            beside.requests, beside.refused = map(int, _end(beside).split())
            return
        ending = threading.Event()
        work = _follow if name == "looked at" else _kill
        thread = threading.Thread(target=work, args=(port, page, ending, beside), daemon=True)
        thread.start()
        try:
            yield beside
        finally:
            ending.set()
            thread.join(PATIENCE)


def _silent() -> Log:
    return Log(StringIO())


def _answers(port: int) -> bool:
    try:
        connection = HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False


def _follow(port: int, page: Child, ending: threading.Event, beside: Beside) -> None:
    """As a browser does, until it is told to end."""
    stream = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    reader = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    stream.request("GET", f"/api/live?of={','.join(DOCUMENTS)}")
    events, tags = stream.getresponse(), dict[str, str]()
    while not ending.is_set():
        line = events.readline()
        if not line.startswith(b"data: "):
            continue
        newest = json.loads(line.removeprefix(b"data: "))
        for name in (name for name, tag in newest.items() if tags.get(name) != tag):
            reader.request("GET", f"/api/{name}")
            reader.getresponse().read()
            beside.requests += 1
        tags = newest
    stream.close()
    reader.close()


def _kill(port: int, page: Child, ending: threading.Event, beside: Beside) -> None:
    """Whenever it answers."""
    while not ending.wait(0.05):
        pid = page.pid
        if pid is not None and _answers(port):
            os.kill(pid, signal.SIGKILL)
            beside.requests += 1


def _flooding(port: int, share: int, beside: Beside) -> Beside:
    command = [sys.executable, "-m", "simulators.speed.flood", str(port), str(share)]
    beside.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    return beside


def _end(beside: Beside) -> str:
    assert beside.process is not None
    return beside.process.communicate(timeout=PATIENCE)[0]
