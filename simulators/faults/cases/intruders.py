"""Somebody who may write what he likes: a device takes nothing of it, and does not grow on it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np

from protofleet.exchange import archive
from protofleet.exchange.state import GlobalState
from protofleet.mqtt.topics import Topics
from protofleet.settings.fields import to_plain
from protofleet.wire import Envelope, epochs
from simulators.faults.bundle_mutations import LINEAGE, manifest, name_of, packed, sound
from simulators.faults.case import Attempt, Case, after
from simulators.faults.crowd import crowd
from simulators.faults.intruder import OFFERS, Intruder, offered
from simulators.faults.testbed import RUN, CaseProcess, Testbed, until
from simulators.faults.verdict import PromiseBroken, judge

MUTATIONS = 250  # a seed
PATIENCE = 20.0  # seconds for one of them, a thousand times what it takes
LARGEST = 80  # MB that a daemon may ever have
SUPERSEDED = 4  # the exit code of a coordinator that met another one


def mutated_bundles(attempt: Attempt) -> str:
    """Bundles that are nearly sound: each is refused or stands, none breaks or holds its test."""
    outcomes, peak, first = Counter[str](), 0, 0
    while first < MUTATIONS:
        rows, words = _tried(attempt.seed, first)
        outcomes.update(row for _, row in rows)
        if words and not rows and not outcomes:
            raise PromiseBroken(f"it does not begin: {words}")
        first = max((number for number, _ in rows), default=first - 1) + 1
        if words.isdigit():
            peak = max(peak, int(words))
            break
        # It died of the next one, or that does not end.
        outcomes[f"broke: {words}"] += 1
        first += 1
    broken = {row: count for row, count in outcomes.items() if row.startswith("broke")}
    if broken:
        raise PromiseBroken(f"of {MUTATIONS} bundles {broken}")
    refused = sum(count for row, count in outcomes.items() if row.startswith("refused"))
    stands = outcomes["stands"]
    return f"{refused} refused, {stands} stand, 0 crashes, 0 hangs, at most {peak} MB"


def _tried(seed: int, first: int) -> tuple[list[tuple[int, str]], str]:
    """Number and outcome of what was tried in one process; its peak in MB, or what ended it."""
    command = [sys.executable, "-m", "simulators.faults.bundle_mutations"]
    words = [str(seed), str(first), str(MUTATIONS)]
    process = subprocess.Popen(
        [*command, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    rows: list[tuple[int, str]] = []
    stuck = threading.Event()
    watch = _watched(process, stuck)
    for line in process.stdout:
        watch.cancel()
        number, *rest = json.loads(line)
        if number == "peak":
            process.wait()
            return rows, str(rest[0])
        rows.append((number, rest[0]))
        watch = _watched(process, stuck)
    watch.cancel()
    code = process.wait()
    return rows, f"no end within {PATIENCE:g} s" if stuck.is_set() else f"it ended with {code}"


def _watched(process: subprocess.Popen[str], stuck: threading.Event) -> threading.Timer:
    def end() -> None:
        stuck.set()
        process.kill()

    timer = threading.Timer(PATIENCE, end)
    timer.daemon = True
    timer.start()
    return timer


def named_bundles(attempt: Attempt) -> str:
    """Bundles that read, loop, swell and lie, offered to a running device: each is refused in a
    line; the next sound one is taken.
    """
    # In turn: four seeds offer all of them.
    offers = list(OFFERS)
    chosen = [offers[(2 * attempt.seed + i) % len(offers)] for i in range(2)]
    with attempt.broker() as broker:
        testbed = attempt.testbed(str(broker.address))
        intruder = Intruder(testbed.url, testbed.fleet)
        device = _device(testbed)
        home = testbed.home("camera")
        try:
            until(lambda: "connected" in device.log.read_text(), "the device")
            for number, what in enumerate(chosen):
                intruder.offer(offered(what, lineage := f"extractor:{number}"), lineage)
                words = OFFERS[what][2]
                refused = partial(_refused, device, words)
                until(refused, f"a refusal of {what}")
                if archive.name_of(home / "fleet.pfb"):
                    raise PromiseBroken(f"{what} was taken")
            files = sound()
            data = packed(files, manifest(files))
            intruder.offer(data, LINEAGE)
            until(lambda: archive.name_of(home / "fleet.pfb"), "the sound one")
            peak = _peak(device.process.pid)
            sees = archive.name_of(home / "fleet.pfb") == name_of(data)
        finally:
            intruder.leave()
        if device.stop() or not sees:
            raise PromiseBroken("the device does not end well, or took another bundle")
    if peak > LARGEST:
        raise PromiseBroken(f"the daemon had {peak} MB, at most {LARGEST} are due")
    return f"{' and '.join(chosen)} refused, the daemon had at most {peak} MB"


def _device(testbed: Testbed) -> CaseProcess:
    """A daemon as anybody starts it, with a few samples."""
    home = testbed.home("camera")
    home.mkdir(parents=True)
    x, y = np.zeros((8, 4, 4, 1), np.uint8), np.arange(8) % 2
    classes = np.array(["a", "b"])
    np.savez(home / "samples.npz", x_train=x, y_train=y, x_test=x, y_test=y, classes=classes)
    words = ["edge_agent", "run", "--id", "camera", "--fleet", testbed.fleet]
    words += ["--broker", testbed.url, "--data-dir", str(home)]
    words += ["--data", str(home / "samples.npz"), "--set", "limits.nice=0"]
    return testbed.process("camera", words)


def _refused(device: CaseProcess, words: str) -> bool:
    if device.process.poll() is not None:
        raise PromiseBroken("the device ended")
    lines = device.log.read_text().splitlines()
    return any("bundle cannot be used" in line and words in line for line in lines)


def _peak(pid: int) -> int:
    """The most memory that a process ever had, in MB."""
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(row.split()[1]) // 1024 for row in rows if row.startswith("VmHWM"))


def false_coordinator(attempt: Attempt) -> str:
    """Somebody speaks for the coordinator under a higher epoch and devices follow him: it is
    noticed, and the next life brings them back, with nothing lost.
    """
    rng = attempt.rng()
    loud = attempt.seed % 2 == 0  # he says that he is the coordinator, or only opens rounds
    with attempt.broker() as broker:
        testbed = attempt.testbed(str(broker.address), rounds=60)
        with crowd(testbed.sites()):
            first = testbed.coordinator()
            after(testbed, rng.randint(3, 30))
            intruder = Intruder(testbed.url, testbed.fleet)
            _speak(intruder, testbed, 1 + rng.randint(1, epochs.JUMP), loud=loud)
            if loud:
                code = first.ended()
                if code != SUPERSEDED:
                    raise PromiseBroken(f"the coordinator ended with {code}")
            else:
                until(partial(_astray, testbed), "the coordinator to notice")
                first.stop()
            intruder.leave()
            lives = _brought_back(testbed)
    judge(testbed)
    return f"back under a higher epoch, after {lives}"


def _brought_back(testbed: Testbed) -> int:
    """How many lives it took: a second one where the first's word went over the intruder's, so that
    only the devices could tell how far he had gone.
    """
    for lives in (1, 2):
        coordinator = testbed.coordinator(None, "--take-over")
        until(partial(_over_or_astray, testbed, coordinator), "the end")
        if coordinator.process.poll() is not None:
            coordinator.done()
            return lives
        coordinator.stop()
    raise PromiseBroken("two lives did not bring the devices back")


def _over_or_astray(testbed: Testbed, coordinator: CaseProcess) -> bool:
    return coordinator.process.poll() is not None or _astray(testbed)


def _astray(testbed: Testbed) -> bool:
    """Whether the coordinator that runs knows that its devices follow another."""
    return bool(testbed.status().get("agents_astray") == testbed.agents)


def _speak(intruder: Intruder, testbed: Testbed, epoch: int, *, loud: bool) -> None:
    topics, state = Topics(testbed.fleet), GlobalState()
    head = Envelope("state", testbed.fleet, RUN, epoch=epoch, boot="f" * 16, round=1000)
    if loud:
        intruder.say(topics.coordinator_state, head, {"online": True, "mode": "sync"})
    head = Envelope(
        "round", testbed.fleet, RUN, epoch=epoch, round=1000, method="fedproto", base=state.base
    )
    body = {
        "phase": "closed",
        "contract": to_plain(testbed.contract()),
        "hyper": {},
        "participants": None,
        "base_round": 999,
        "own": False,
    }
    intruder.say(topics.round, head, body)


def repeated_uploads(attempt: Attempt) -> str:
    """Somebody says a device's first upload again for every round, in a right envelope and before
    the device does: each is refused, the real one counts.
    """
    with attempt.broker() as broker:
        testbed = attempt.testbed(str(broker.address), rounds=8, serve={"every": 0.2})
        intruder = Intruder(testbed.url, testbed.fleet)
        intruder.repeat(testbed.names)
        try:
            with crowd(testbed.sites()):
                testbed.coordinator().done()
        finally:
            intruder.leave()
    if not intruder.repeated:
        raise PromiseBroken("nothing was repeated")
    judge(testbed)
    return f"{intruder.repeated} uploads repeated, none counted"


CASES = (
    # On no broker, which the embedded one is the nearest to: 20 times 250 are 5,000.
    Case(
        "intruder, bundles mutated", mutated_bundles, soak=60, brokers=("embedded",), adversary=True
    ),
    Case("intruder, bundles named", named_bundles, soak=6, adversary=True),
    Case("intruder, uploads repeated", repeated_uploads, soak=6, adversary=True),
    # The embedded broker does not let a coordinator hear what others say on its own topic.
    Case(
        "intruder, a false coordinator",
        false_coordinator,
        soak=6,
        brokers=("mosquitto",),
        adversary=True,
    ),
)
