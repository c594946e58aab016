"""`protofleet bench crowd`: what so many devices cost one coordinator, and whether any is lost.

Broker, coordinator and its page are real and processes of their own; devices are light ones
(`simulators.throngs.light_device`), some thousand a process.
"""

# Theory of operation
#
# Six acts, each over when the coordinator says so itself, not when somebody thinks that it should:
#
#   act           begins with                              is over when
#   births        every device connects at once            it counts all of them as there
#   a round       the first one opens                      it is cut, and its state is there
#   the ledger    every device contributes                 a version has all of them
#   counts        a total is offered to be counted against all who were drawn have counted
#   the cut       a second round is open, and a quarter    it counts half of them as there
#                 of its answers is in: then half of all
#                 sockets are reset at once
#   the return    they come back                           that round is cut, with everybody in it
#
# Throughout, `status` is asked five times a second, and the page once a second for its largest
# document; the slowest answer of an act stands in its row. Processor time is the coordinator's own,
# read from the system, with what those questions cost it. It is divided by the devices that an act
# is about, so that rows of different sizes can be held beside each other: what is flat is the same
# at five hundred and at ten thousand.
#
# Nothing is lost if the journal agrees with the devices: whatever any of them has a receipt for is
# in it, under that digest, and everybody who was asked is in the cut of each round. (Counts are no
# promise: those against an earlier total are dropped.) Then the journal is replayed, and has to
# come to the same states.

from __future__ import annotations

import json
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from coordinator.journal.journal import Journal
from coordinator.service.control import ask
from coordinator.service.replay import replayed
from protofleet.errors import FleetError
from protofleet.mqtt.broker.run import running_broker
from protofleet.wire.codes import UploadStatus
from simulators.speed import raw
from simulators.speed.serving import serving
from simulators.throngs.light_device import EMBEDDING
from simulators.trees import contributors

FLEET = "crowd"
SPARE = 200  # open files beside those of the devices
PATIENCE = 900.0  # seconds for an act
ASK_EVERY, LOOK_EVERY = 0.2, 1.0  # seconds between two questions for `status`, two for the page
TELL_EVERY = 2.0
SETTLE = 3.0  # of the ledger
TAKEN = (UploadStatus.ACCEPTED, UploadStatus.DUPLICATE)


@dataclass(frozen=True)
class CrowdOptions:
    """How many, and who of them is asked in a round."""

    devices: int = 10_000
    share: float = 1.0
    port: int = 18_321  # of the page
    each: int = 2_500  # devices a process


@dataclass(frozen=True)
class Act:
    """What one part of it took."""

    name: str
    devices: int  # that it is about
    seconds: float
    cpu_us: float  # of the coordinator, a device
    status_s: float  # the slowest answer
    page_s: float


@dataclass(frozen=True)
class CrowdFigures:
    """What was measured."""

    devices: int
    processes: int
    acts: list[Act]
    coordinator_mb: float  # at most
    broker_mb: float
    page_mb: float
    journal_bytes: int
    announcement_bytes: int
    page_bytes: int
    said_again: int  # statements that were said more than once
    asked: int  # in the second round
    lost: int
    states: Mapping[str, str]  # by round or version, and whether a replay comes to them


Tell = Callable[[str], None]


def bench_crowd(options: CrowdOptions, folder: Path, tell: Tell) -> CrowdFigures:
    """All six acts; the journal is looked at when the coordinator is gone."""
    make_room(options.devices + SPARE)
    serve = {
        "run": "bench",
        "min_agents": options.devices,
        "rounds": 2,
        "participation": options.share,
        "round_timeout": PATIENCE,
        "enrol": "auto",
    }
    contract = {
        "classes": list(contributors.CLASSES),
        "embedding": EMBEDDING,
        "input": {"kind": "vector", "shape": [contributors.WIDTH]},
    }
    more = {
        "contract": contract,
        "ledger": {"settle": SETTLE},
        "admission": {"devices": max(options.devices, 10_000)},
    }
    sizes = (len(contributors.CLASSES), EMBEDDING)
    with ExitStack() as stack:
        broker = stack.enter_context(running_broker(folder / "broker", prefer="mosquitto"))
        url = str(broker.address)
        service = stack.enter_context(serving(folder, url, FLEET, *sizes, serve, more))
        data = folder / "data"
        ask(data, "pause")
        bundle = contributors.bundle(folder / "extractor.pfb")
        ask(data, "classes", what="freeze", file=str(bundle))
        looker = stack.enter_context(looking(data, options.port))
        hosts = stack.enter_context(hosting(broker.address.host, broker.address.port, options))
        stage = Stage(options.devices, data, service.pid, hosts, looker, tell)
        acts = list(play(stage))
        announced = announcement(broker.address.host, broker.address.port)
        memory = raw.peak(service.pid), raw.peak(broker.pid), raw.peak(looker.pid)
        receipts, again = hosts.receipts(), hosts.total("again")
    journal = Journal.read(data)
    try:
        lost, participants = losses(journal, receipts)
        verdicts = {str(one.round): one.verdict for one in replayed(journal)}
        size = journal.size()
    finally:
        journal.close()
    return CrowdFigures(
        options.devices,
        len(hosts.processes),
        acts,
        *memory,
        size,
        announced,
        looker.size,
        again,
        participants,
        lost,
        verdicts,
    )


def make_room(files: int) -> None:
    """Let this process's children open so many files each; the system may not allow it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= files or soft == resource.RLIM_INFINITY:
        return
    if files > hard != resource.RLIM_INFINITY:
        words = f"a broker of so many devices opens {files} files, and here {hard} are allowed"
        raise FleetError(words, f"ulimit -n {files}, or fewer --devices")
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))


def losses(journal: Journal, receipts: Mapping[str, Mapping[str, Any]]) -> tuple[int, int]:
    """What somebody has a receipt for and the journal has not, and who was asked and is in no cut;
    and how many were asked in the newest round.
    """
    lineage, lost, newest = contributors.LINEAGE, 0, 0
    there = {(0, r.agent, r.digest) for r in journal.ledger.contributions(lineage)}
    for opened in journal.rounds():
        there |= {(opened.round, u.agent, u.digest) for u in journal.uploads(opened.round)}
        cut = journal.cut(opened.round)
        counted = set() if cut is None else {agent for _, agent, _ in cut.counted}
        lost += len(set(opened.asked) - counted)
        newest = len(opened.asked)
    for agent, answers in receipts.items():
        for digest, (number, status) in answers.items():
            lost += status not in TAKEN or (number, agent, digest) not in there
    return lost, newest


# the acts


@dataclass
class Stage:
    """What the acts play on."""

    devices: int
    data: Path
    service: int  # its process
    hosts: Hosts
    looker: Looker
    tell: Tell

    def status(self) -> dict[str, Any]:
        """What the coordinator says of itself, as it was asked last."""
        return self.looker.newest

    def act(self, name: str, devices: int, over: Callable[[dict[str, Any]], bool]) -> Act:
        """Wait until it is over."""
        self.looker.begin()
        began, used, tell_at = time.monotonic(), raw.cpu(self.service), 0.0
        while not over(self.status()):
            now = time.monotonic()
            if now - began > PATIENCE:
                raise FleetError(f"{name}: not over after {PATIENCE:g} seconds")
            if now >= tell_at:
                tell_at = now + TELL_EVERY
                self.tell(f"{name}: {now - began:.0f} s, {self._words()}")
            self.hosts.check()
            time.sleep(0.02)
        seconds, cpu = time.monotonic() - began, raw.cpu(self.service) - used
        slowest = self.looker.slowest
        return Act(name, devices, seconds, 1e6 * cpu / max(devices, 1), *slowest)

    def _words(self) -> str:
        now = self.status()
        book = now.get("ledger") or {}
        return (
            f"{now.get('agents_online', 0)} there, {now.get('answered', 0)} answered, "
            f"{book.get('devices', 0)} contributed, {book.get('counted', 0)} counted"
        )


def play(stage: Stage) -> Iterator[Act]:
    """One after the other, with what begins each."""
    everybody, half = stage.devices, stage.devices // 2
    stage.hosts.order("join")
    yield stage.act("births", everybody, lambda now: now["agents_online"] == everybody)
    ask(stage.data, "resume")
    stage.tell("the first round opens")
    _until(stage, lambda now: now["round"] >= 1)
    ask(stage.data, "pause")  # so that no second one follows it
    participants = stage.status()["asked"]
    yield stage.act("a round", participants, lambda now: now["state_round"] >= 1)
    stage.hosts.order("contribute")
    yield stage.act("the ledger", everybody, lambda now: _book(now).get("devices") == everybody)
    yield stage.act("counts", everybody, _is_counted)
    ask(stage.data, "resume")
    _until(stage, lambda now: now["round"] >= 2)
    participants = stage.status()["asked"]
    _until(stage, lambda now: now["answered"] >= participants // 4)
    stage.hosts.order("cut")
    away = stage.hosts.halves
    yield stage.act("cut off", half, lambda now: now["agents_online"] <= everybody - away)
    stage.hosts.order("back")
    yield stage.act("back", half, lambda now: _is_back(now, everybody))
    _until(stage, lambda now: not stage.hosts.total("waiting"))


def _book(now: Mapping[str, Any]) -> Mapping[str, Any]:
    return now.get("ledger") or {}


def _is_counted(now: Mapping[str, Any]) -> bool:
    """Whether the newest version is calibrated by counts against its own total."""
    book = _book(now)
    return bool(book.get("current") and book.get("settled"))


def _is_back(now: Mapping[str, Any], everybody: int) -> bool:
    return bool(now["agents_online"] == everybody and now["state_round"] >= 2)


def _until(stage: Stage, there: Callable[[dict[str, Any]], bool]) -> None:
    """Between acts."""
    raw.until(lambda: there(stage.status()), PATIENCE)


# who looks


@dataclass
class Looker:
    """Asks for `status` and for the page's largest document, all the time."""

    data: Path
    port: int
    pid: int  # of the page
    newest: dict[str, Any] = field(default_factory=dict)
    size: int = 0  # of that document
    _status: float = 0.0
    _page: float = 0.0

    def begin(self) -> None:
        """Of what is asked from now on."""
        self._status = self._page = 0.0
        self.newest = ask(self.data, "status")

    @property
    def slowest(self) -> tuple[float, float]:
        """Seconds, of `status` and of the page."""
        return self._status, self._page

    def ask_status(self) -> None:
        """Once."""
        began = time.monotonic()
        self.newest = ask(self.data, "status")
        self._status = max(self._status, time.monotonic() - began)

    def ask_page(self) -> None:
        """Once, as a browser does: what it has already it is not sent again."""
        began = time.monotonic()
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", "/api/fleet")
            answer = connection.getresponse()
            size = len(answer.read())
        except (OSError, HTTPException):
            return  # it is not up yet
        finally:
            connection.close()
        if answer.status == 200:
            self.size = max(self.size, size)
            self._page = max(self._page, time.monotonic() - began)


@contextmanager
def looking(data: Path, port: int) -> Iterator[Looker]:
    """A page, and two threads that ask, until the block is left."""
    command = [sys.executable, "-m", "coordinator", "web", "--data-dir", str(data)]
    command += ["--http", f"127.0.0.1:{port}"]
    stop, failed = threading.Event(), list[Exception]()
    with (data.parent / "page.log").open("w") as log:
        page = subprocess.Popen(command, stdout=log, stderr=log)
        looker = Looker(data, port, page.pid)

        def asking(question: Callable[[], None], every: float) -> None:
            try:
                while not stop.wait(every):
                    question()
            except Exception as error:
                failed.append(error)

        threads = [
            threading.Thread(target=asking, args=words, daemon=True)
            for words in ((looker.ask_status, ASK_EVERY), (looker.ask_page, LOOK_EVERY))
        ]
        for thread in threads:
            thread.start()
        try:
            yield looker
        finally:
            stop.set()
            for thread in threads:
                thread.join(30)
            page.terminate()
            page.wait(30)
    if failed:
        raise FleetError(f"the coordinator did not answer: {failed[0]}")


# who plays


class Hosts:
    """The processes that devices live in."""

    def __init__(self, processes: Sequence[subprocess.Popen[str]], halves: int) -> None:
        self.processes, self.halves = processes, halves
        self._standing: list[dict[str, Any]] = [{} for _ in processes]
        self._reports: SimpleQueue[dict[str, Any]] = SimpleQueue()
        for place, process in enumerate(processes):
            threading.Thread(target=self._listen, args=(place, process), daemon=True).start()

    def order(self, command: str) -> None:
        """To all of them."""
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.write(command + "\n")
            process.stdin.flush()

    def total(self, name: str) -> int:
        """A number that each of them says, added up."""
        return sum(standing.get(name, 0) for standing in self._standing)

    def check(self) -> None:
        """Whether they are all there."""
        for process in self.processes:
            if process.poll() is not None:
                raise FleetError(f"a process of devices ended with {process.returncode}")

    def receipts(self) -> dict[str, Any]:
        """What every device was told."""
        self.order("report")
        every: dict[str, Any] = {}
        try:
            for _ in self.processes:
                every |= self._reports.get(timeout=60)
        except Empty:
            raise FleetError("a process of devices does not report") from None
        return every

    def _listen(self, place: int, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            document = json.loads(line)
            if "report" in document:
                self._reports.put(document["report"])
            else:
                self._standing[place] = document


@contextmanager
def hosting(host: str, port: int, options: CrowdOptions) -> Iterator[Hosts]:
    """As many as they take, until the block is left."""
    module, processes, halves = "simulators.throngs.device_host", [], 0
    for first in range(0, options.devices, options.each):
        count = min(options.each, options.devices - first)
        words = [host, str(port), FLEET, str(first), str(count)]
        command = [sys.executable, "-m", module, *words]
        processes.append(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        halves += count // 2
    try:
        yield Hosts(processes, halves)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def announcement(host: str, port: int) -> int:
    """Bytes of the newest announcement, as the broker has it."""
    from protofleet.mqtt.topics import Topics

    with raw.connected(host, port, "bench-ear") as ear:
        topic, buffer = Topics(FLEET).round, bytearray()
        ear.sendall(raw.packet(0x82, b"\0\1" + raw.text(topic) + b"\0"))
        while True:
            buffer += ear.recv(1 << 16)
            for name, payload in raw.publishes(buffer):
                if name == topic:
                    return len(payload)
