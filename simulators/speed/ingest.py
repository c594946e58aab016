"""`protofleet bench ingest`: uploads from 20 publishers through mosquitto, to a subscriber that
drops them and to us.

Publishers write ready-made packets to plain sockets, a window of unacknowledged ones each, so that
they cost next to nothing; CPU is what the receiving process used, read from the system. The
coordinator does all it does in the field: decoding, admission, hash, journal, folding, receipts.

The receiver has a processor to itself, broker and publishers have another: left to the scheduler,
the same subscriber took 15,000 uploads a second or 31,000, by whom it had to share with. The two
receivers take turns, and medians count.
"""

# Theory of operation
#
# The question is what the coordinator costs beside the least that any subscriber must do: take a
# packet from the broker and acknowledge it. So two receivers get the same packets.
#
#     receiver          does                                            is done when
#     bare subscriber   paho: read, acknowledge, count, drop            it has counted all
#     coordinator       decode, validate, hash, commit, fold, receipt   the last receipt came
#
# What would make it unfair, and what is done about it:
#
# - Publishers that cannot keep up would measure themselves. They write packets that were encoded
#   before the clock starts to plain sockets, and only count the acknowledgements.
# - With no bound on what is under way the broker's queue would be measured. Each publisher has at
#   most WINDOW unacknowledged packets, so all of them together keep the broker busy, not full.
# - By whom the receiver shares a processor with, its rate doubles or halves. It has one to itself;
#   broker and publishers share the other, for both receivers alike.
# - A broker grows and slows down with what it has seen: every run has a new one.
# - A machine has moods. The receivers take turns, and the median of each figure counts; losses are
#   added up, since one lost upload is one too many.
#
# CPU time is read from the kernel (ticks of 10 ms: it takes thousands of uploads to mean
# anything). The wait of an upload is from the moment its packet is first handed to the socket to
# the receipt's arrival at a third connection, in one process, so that one clock measures both ends.
#
# The coordinator's round is kept open by a device that is there and never answers: a round that
# closed under the flood would make the rest late, and late uploads take a shorter way.

from __future__ import annotations

import os
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from coordinator.service.control import ask
from protofleet import wire
from protofleet.mqtt.broker.run import RunningBroker, running_broker
from protofleet.mqtt.topics import Topics
from protofleet.values.prototypes import Prototypes
from simulators.speed import raw
from simulators.speed.raw import Seal
from simulators.speed.serving import serving
from simulators.speed.signing import SigningCrew

FLEET, CLASSES, DIM = "bench", 10, 1024
PUBLISHERS, WINDOW = 20, 20
PATIENCE = 120.0
SLEEPER = "sleeper"


@dataclass(frozen=True)
class Ingested:
    """What taking in so many uploads cost one receiver."""

    name: str
    uploads: int
    lost: int
    per_second: float
    cpu_us: float
    rss_mb: float
    broker_us: float
    publishers_us: float
    p50_ms: float | None = None
    p99_ms: float | None = None
    own_us: float | None = None  # the coordinator's part, where others take uploads in for it


def bench_ingest(
    uploads: int,
    runs: int,
    folder: Path,
    tell: Callable[[str], None],
    *,
    signed: bool = False,
    counts: Sequence[int] = (1,),
) -> list[Ingested]:
    """The bare subscriber and the coordinator in turn on the same packets, each time with a broker
    of its own; the coordinator with so many processes, and that of a fleet whose words are signed,
    if that is to be seen beside.
    """
    measured = []
    receivers: dict[str, _Measure] = {"bare": _bare}
    receivers |= {f"coordinator-{count}": partial(_coordinator, count) for count in counts}
    receivers |= {"signed": _signed} if signed else {}
    for run in range(1, runs + 1):
        for name, measure in receivers.items():
            tell(f"run {run} of {runs}: {name}")
            place = folder / f"{run}-{name}"
            with (
                running_broker(place / "broker", prefer="mosquitto") as broker,
                _apart(broker.pid) as receive,
            ):
                measured.append(measure(uploads, place, broker, receive))
    return measured


_Measure = Callable[[int, Path, RunningBroker, Callable[[int], None]], Ingested]


def middle(measured: Sequence[Ingested]) -> list[Ingested]:
    """The median of each receiver's figures, and all that it lost."""
    rows = []
    for name in dict.fromkeys(run.name for run in measured):
        runs = [run for run in measured if run.name == name]
        figures = {
            f.name: [getattr(run, f.name) for run in runs]
            for f in fields(Ingested)
            if f.name != "name"
        }
        medians = {
            key: None if None in values else median(values) for key, values in figures.items()
        }
        rows.append(Ingested(name, **{**medians, "lost": sum(figures["lost"])}))
    return rows


def _bare(
    uploads: int, folder: Path, broker: RunningBroker, receive: Callable[[int], None]
) -> Ingested:
    host, port = broker.address.host, broker.address.port
    with _subscriber(host, port) as process:
        receive(process.pid)
        return _measure(
            "bare paho subscriber", process, broker, bench_uploads(uploads, "0" * 64), None
        )


def _coordinator(
    count: int, uploads: int, folder: Path, broker: RunningBroker, receive: Callable[[int], None]
) -> Ingested:
    name = "coordinator" if count == 1 else f"with {count} ingesters"
    return _served(name, uploads, folder, broker, receive, raw.unsigned, count)


def _signed(
    uploads: int, folder: Path, broker: RunningBroker, receive: Callable[[int], None]
) -> Ingested:
    names = [bench_agent(number) for number in range(uploads)]
    crew = SigningCrew.of_folder(folder / "data", FLEET, [*names, SLEEPER])
    return _served("coordinator, signed", uploads, folder, broker, receive, crew.seal)


def _served(
    name: str,
    uploads: int,
    folder: Path,
    broker: RunningBroker,
    receive: Callable[[int], None],
    seal: Seal,
    ingesters: int = 1,
) -> Ingested:
    serve = {"run": "bench", "round_timeout": 3600.0, "ingest": ingesters}
    with serving(folder, str(broker.address), FLEET, CLASSES, DIM, serve) as process:
        _open_round(folder, broker.address.host, broker.address.port, seal)
        others = _ingesters(folder / "data", ingesters)
        for pid in (process.pid, *others):
            receive(pid)
        base, topics = ask(folder / "data", "show", round=1)["base"], Topics(FLEET)
        messages = [
            (agent, seal(agent, topics.upload(agent, 1), message))
            for agent, message in bench_uploads(uploads, base)
        ]

        def count() -> int:
            return int(ask(folder / "data", "status")["uploads"])

        return _measure(name, process, broker, messages, count, others)


@contextmanager
def _apart(broker: int) -> Iterator[Callable[[int], None]]:
    """Broker and publishers (which are this process) on one processor; what is given moves a
    receiver to another.
    """
    before = os.sched_getaffinity(0)
    ours, *others = sorted(before)
    if not others:
        yield lambda pid: None
        return
    raw.place(broker, ours)
    raw.place(os.getpid(), ours)
    try:
        yield lambda pid: raw.place(pid, others[0])
    finally:
        os.sched_setaffinity(0, before)


def _measure(
    name: str,
    process: subprocess.Popen[str],
    broker: RunningBroker,
    messages: Sequence[tuple[str, bytes]],
    count: Callable[[], int] | None,
    others: Sequence[int] = (),
) -> Ingested:
    host, port = broker.address.host, broker.address.port
    before, own = _used([process.pid, *others], broker.pid), raw.cpu(process.pid)
    sent_at, answered_at, began = publish_all(
        host, port, messages, Topics(FLEET), wait_for_receipts=count is not None
    )
    if count is not None:
        received, ended = count(), max(answered_at.values(), default=began)
    else:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{len(messages)}\n")
        process.stdin.flush()
        words = process.stdout.readline().split()
        received, ended = int(words[0]), float(words[1])
    after, own = _used([process.pid, *others], broker.pid), raw.cpu(process.pid) - own
    costs = [1e6 * (b - a) / max(received, 1) for a, b in zip(before, after, strict=True)]
    waits = [1e3 * (answered_at[agent] - sent_at[agent]) for agent in answered_at]
    return Ingested(
        name,
        received,
        lost=len(messages) - received,
        per_second=received / (ended - began),
        cpu_us=costs[0],
        rss_mb=sum(raw.rss(pid) for pid in (process.pid, *others)),
        broker_us=costs[1],
        publishers_us=costs[2],
        p50_ms=float(np.percentile(waits, 50)) if waits else None,
        p99_ms=float(np.percentile(waits, 99)) if waits else None,
        own_us=1e6 * own / max(received, 1) if others else None,
    )


def _used(receivers: Sequence[int], broker: int) -> tuple[float, float, float]:
    """Seconds of processor time: receiver, broker, publishers."""
    return sum(map(raw.cpu, receivers)), raw.cpu(broker), time.process_time()


def _ingesters(data: Path, count: int) -> list[int]:
    """Those that take uploads in for a coordinator, once the broker deals them out to all."""
    if count == 1:
        return []

    def there() -> bool:
        return len(ask(data, "status")["ingesters"]) == count

    raw.until(there, PATIENCE)
    return [int(pid) for pid in ask(data, "status")["ingesters"]]


def bench_agent(number: int) -> str:
    """What a device is called."""
    return f"agent-{number:05d}"


def bench_uploads(count: int, base: str) -> list[tuple[str, bytes]]:
    """One upload an agent: 10 classes of 1,024 numbers in half precision, 20 KB."""
    rng = np.random.default_rng(0)
    classes, counts = np.arange(CLASSES), np.full(CLASSES, 60)
    vectors = rng.normal(size=(CLASSES, DIM))
    messages = []
    for number in range(count):
        agent = bench_agent(number)
        envelope = wire.Envelope(
            t="upload",
            fleet=FLEET,
            run="bench",
            epoch=1,
            agent=agent,
            boot="b",
            seq=1,
            round=1,
            method="fedproto",
            base=base,
        )
        parts = {"prototypes": Prototypes(classes, np.roll(vectors, number, axis=1), counts)}
        messages.append((agent, wire.encode(envelope, parts)))
    return messages


def publish_all(
    host: str,
    port: int,
    messages: Sequence[tuple[str, bytes]],
    topics: Topics,
    *,
    wait_for_receipts: bool,
) -> tuple[dict[str, float], dict[str, float], float]:
    """Publish all, by QoS 1 from so many sockets; when each was sent, and when its receipt came."""
    selector = selectors.DefaultSelector()
    receipts = raw.connected(host, port, "bench-ear")
    receipts.sendall(raw.packet(0x82, b"\0\1" + raw.text(f"{topics.prefix}/d/+/rcpt") + b"\0"))
    selector.register(receipts, selectors.EVENT_READ, None)
    publishers = []
    for number in range(PUBLISHERS):
        publisher = _Publisher(
            raw.connected(host, port, f"bench-{number}"), list(messages[number::PUBLISHERS]), topics
        )
        publisher.socket.setblocking(False)
        selector.register(publisher.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, publisher)
        publishers.append(publisher)
    answered_at: dict[str, float] = {}
    buffer, began = bytearray(), time.time()
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        for key, mask in selector.select(0.2):
            if key.data is None:
                buffer += receipts.recv(1 << 16)
                for topic, _ in raw.publishes(buffer):
                    answered_at.setdefault(topic.split("/")[4], time.time())
            else:
                interest = key.data.work(mask)
                if interest != key.events:
                    selector.modify(key.fileobj, interest, key.data)
        if all(publisher.done for publisher in publishers) and (
            not wait_for_receipts or len(answered_at) >= len(messages)
        ):
            break
    for publisher in publishers:
        publisher.socket.close()
    receipts.close()
    sent_at = {agent: at for publisher in publishers for agent, at in publisher.sent_at.items()}
    return sent_at, answered_at, began


class _Publisher:
    """One publisher: a socket, what is left to send, and how much of it is unacknowledged."""

    def __init__(
        self, connection: socket.socket, messages: list[tuple[str, bytes]], topics: Topics
    ) -> None:
        self.socket, self._messages, self._topics = connection, messages[::-1], topics
        self._out, self._in, self._flying, self._number = b"", bytearray(), 0, 0
        self.sent_at: dict[str, float] = {}

    @property
    def done(self) -> bool:
        return not self._messages and not self._out and not self._flying

    def work(self, mask: int) -> int:
        """Read and write what can be; the events that it waits for next."""
        if mask & selectors.EVENT_READ:
            self._in += self.socket.recv(1 << 16)
            acks, rest = divmod(len(self._in), 4)  # nothing but PUBACKs comes back
            self._flying -= acks
            self._in = self._in[len(self._in) - rest :]
        while not self._out and self._messages and self._flying < WINDOW:
            agent, payload = self._messages.pop()
            self._number = self._number % 65_535 + 1
            self._out = raw.upload(self._topics, agent, 1, self._number, payload)
            self._flying += 1
            self.sent_at[agent] = time.time()
            self._write()
        if self._out:
            self._write()
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self._out else 0)

    def _write(self) -> None:
        try:
            self._out = self._out[self.socket.send(self._out) :]
        except BlockingIOError:
            return


@contextmanager
def _subscriber(host: str, port: int) -> Iterator[subprocess.Popen[str]]:
    """A process with nothing but paho, which counts and drops."""
    process = subprocess.Popen(
        [sys.executable, "-c", _BARE, host, str(port), f"{Topics(FLEET).prefix}/d/+/up/+"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.wait()


_BARE = """
import sys, time
from paho.mqtt.client import CallbackAPIVersion, Client
count, last = 0, 0.0
def came(client, user, message):
    global count, last
    count, last = count + 1, time.time()
client = Client(CallbackAPIVersion.VERSION2, "bare")
client.on_message = came
client.on_subscribe = lambda *a: print("ready", flush=True)
client.on_connect = lambda c, *a: c.subscribe(sys.argv[3], 1)
client.connect(sys.argv[1], int(sys.argv[2]))
client.loop_start()
wanted, until = int(sys.stdin.readline()), time.time() + 60
while count < wanted and time.time() < until:
    time.sleep(0.01)
print(count, last, flush=True)
sys.stdin.readline()
"""


def _open_round(folder: Path, host: str, port: int, seal: Seal) -> None:
    """A round in which one device, that is there and never answers, is waited for in vain."""
    with raw.connected(host, port, SLEEPER) as sleeper:
        sleeper.sendall(raw.birth(Topics(FLEET), SLEEPER, seal))
        raw.until(lambda: is_open(folder / "data"), PATIENCE)


def is_open(data: Path) -> bool:
    """Whether a first round is; it collects a moment before it is in the journal."""
    return bool(ask(data, "rounds")["rounds"]) and ask(data, "status")["phase"] == "collecting"
