"""Somebody who has the broker, in a fleet whose words are signed: nothing that he says changes
anything, and each word is one line.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial

import numpy as np
from PIL import Image

from coordinator.service.control import ask
from edge_agent.updates import cache
from protofleet.exchange import archive, published
from simulators.faults.bundle_mutations import LINEAGE, SIDE, manifest, packed, sound
from simulators.faults.case import Attempt, Case, after
from simulators.faults.crowd import crowd
from simulators.faults.forger import FalseWord, Forger
from simulators.faults.testbed import CaseProcess, Testbed, until
from simulators.faults.verdict import PromiseBroken, judge

NOBODY = "nobody stands for it"
CAMERA = "camera"


def forged_words(attempt: Attempt) -> str:
    """Somebody says everything that may be said in a fleet by invitation, false, old, elsewhere and
    in others' names: states and answers are the undisturbed run's, and each word is one line.
    """
    with attempt.broker() as broker:
        # So slowly that no machine comes to the last one before he spoke.
        testbed = attempt.testbed(str(broker.address), rounds=12, serve={"every": 1.0})
        testbed.invite(CAMERA)
        forger = Forger(testbed.url, testbed.fleet, attempt.folder / "other")
        try:
            with crowd(testbed.sites()):
                coordinator = testbed.coordinator()
                after(testbed, 1)
                ask(testbed.data, "pause")
                camera = _camera(testbed)
                before = _answers(testbed)
                ask(testbed.data, "resume")
                after(testbed, 3 * 3)
                # Nothing is announced while he speaks, so that every word of his is heard.
                ask(testbed.data, "pause")
                said = _forged(testbed, forger)
                ask(testbed.data, "resume")
                coordinator.done()
        finally:
            forger.leave()
        if camera.stop():
            raise PromiseBroken("the device that classifies did not end well")
        if _answers(testbed) != before:
            raise PromiseBroken("a device classifies with something else now")
    judge(testbed)
    return f"{said} words to {len(testbed.names) + 1} devices and the coordinator, each one line"


def _forged(testbed: Testbed, forger: Forger) -> int:
    """How many words he said; each is waited for where it is to be refused."""
    devices = [*testbed.names, CAMERA]
    receipts = [forger.topics.receipt(name) for name in testbed.names]
    until(lambda: all(len(forger.words(topic)) > 1 for topic in receipts), "words to lie about")
    words = 0
    for lies, listeners in (
        (forger.of_the_fleet(testbed.names), devices),
        (forger.of_keys(), devices),
        (forger.of_devices(testbed.names[:2]), ["coordinator"]),
    ):
        words += _refused(testbed, forger, lies, listeners)
    for word in forger.removals():
        forger.say(word)
    return words


def _refused(
    testbed: Testbed, forger: Forger, lies: Iterable[FalseWord], listeners: list[str]
) -> int:
    """Say them all, and wait until everybody who hears one has refused it, in one line."""
    due = {name: _lines(testbed, name) for name in (*listeners, "coordinator")}
    count = 0
    for word in lies:
        forger.say(word)
        count += 1
        for name in _hearers(testbed, forger, word, listeners):
            due[name][word.topic] += 1
    for name, expected in due.items():
        until(partial(_has, testbed, name, expected), f"{name} to refuse {dict(expected)}")
        lines = _lines(testbed, name)
        if lines != expected:
            raise PromiseBroken(f"{name} said {dict(lines - expected)} times too often: nobody")
    return count


def _hearers(testbed: Testbed, forger: Forger, word: FalseWord, listeners: list[str]) -> list[str]:
    place = forger.topics.parse(word.topic)
    assert place is not None  # he makes topics as everybody does
    if place.agent is not None and place.kind == "receipt":
        return [place.agent]
    # The coordinator hears what is said in its own name of itself.
    return [*listeners, *["coordinator"] * (place.kind == "coordinator_state")]


def _has(testbed: Testbed, name: str, expected: Counter[str]) -> bool:
    return not expected - _lines(testbed, name)


def _lines(testbed: Testbed, name: str) -> Counter[str]:
    """How often somebody refused a word, by its topic."""
    log = testbed.home(name) / "log" if name in testbed.names else testbed.folder / f"{name}.log"
    topics = Counter[str]()
    for line in log.read_text().splitlines():
        if NOBODY in line:
            topics[line.rpartition("topic=")[2]] += 1
    return topics


def _camera(testbed: Testbed) -> CaseProcess:
    """A member that trains nothing and classifies with what the fleet has."""
    files = sound()
    bundle = testbed.folder / "fleet.pfb"
    bundle.write_bytes(packed(files, manifest(files)))
    ask(testbed.data, "classes", what="freeze", file=str(bundle))
    home, rng = testbed.home(CAMERA), np.random.default_rng(1)
    x, y = np.zeros((8, SIDE, SIDE, 1), np.uint8), np.arange(8) % 2
    classes = np.array(["a", "b"])
    np.savez(home / "samples.npz", x_train=x, y_train=y, x_test=x, y_test=y, classes=classes)
    for number in range(4):
        pixels = rng.integers(0, 256, (SIDE, SIDE), dtype=np.uint8)
        Image.fromarray(pixels).save(home / f"{number}.png")
    elsewhen = datetime.now() + timedelta(hours=12)
    window = f"{elsewhen:%H:%M}-{elsewhen + timedelta(minutes=1):%H:%M}"
    words = ["edge_agent", "run", "--data-dir", str(home), "--data", str(home / "samples.npz")]
    words += ["--set", "limits.nice=0", "--set", f"limits.windows={window}"]
    process = testbed.process(CAMERA, words)
    until(lambda: archive.name_of(home / "fleet.pfb"), "the bundle on the device")
    until((cache.state_file(home / "fleet.pfb")).exists, "what the device classifies with")
    return process


def _answers(testbed: Testbed) -> tuple[str, str, object]:
    """What a device classifies with, and what it says of photos."""
    home = testbed.home(CAMERA)
    bundle = home / "fleet.pfb"
    bank = published.read(cache.state_file(bundle).read_bytes())
    command = ["edge_agent", "infer", "--bundle", str(bundle), "--json"]
    photos = [str(home / f"{number}.png") for number in range(4)]
    run = subprocess.run([sys.executable, "-m", *command, *photos], capture_output=True, check=True)
    answers = [(one["label"], one["path"]) for one in json.loads(run.stdout)["answers"]]
    if bank.bank.about.lineage != LINEAGE:
        raise PromiseBroken("a device follows another extractor")
    return archive.name_of(bundle), bank.digest, answers


CASES = (
    # The embedded broker does not let a coordinator hear what others say on its own topic.
    Case(
        "intruder, forged words",
        forged_words,
        soak=2,
        brokers=("mosquitto",),
        adversary=True,
    ),
)
