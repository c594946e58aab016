"""A live ledger on real photographs, and the laboratory beside it: from the start of its devices to
a classifier, a new class, a device that is forgotten, one that is mislabelled.
"""

# Theory of operation
#
# `folder/<domain>/<class>/*`: a domain is a camera, a third of each class is held back, and one
# class is nobody's at first. What happens, and what is measured:
#
#   the laboratory   looks at every photograph once (one thread, one by one, as devices do), adds up
#                    contributions and counts in memory: state hash, accuracy on what is held back
#   live             a broker, a coordinator, a device a domain; seconds to the first classifier and
#                    to the last one, memory and processor time of each device, hash, accuracy with
#                    what the devices have on disk
#   idle             for so many seconds: bytes over the broker, of logs, of the journal
#   a new class      five photographs of it on one device; seconds until another one knows it
#   forgotten        a device is stopped and forgotten: the hash, and whether it is proven
#   mislabelled      it comes back under another name with two classes swapped: what is said of it
#   further starts   of the same devices in other orders, with what they looked at before: hashes
#
# Everything runs as a person would run it, from the commands, in a folder that goes when it ends.

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from coordinator.service.control import NotRunning, ask
from coordinator.uploads.fuse import as_published
from edge_agent.data import images
from edge_agent.inference.classifier import Classifier
from edge_agent.inference.inputs import precisely
from edge_agent.updates import cache
from protofleet.errors import DataError, UsageError
from protofleet.exchange import learned as states
from protofleet.methods import fleet
from protofleet.mqtt.broker.run import RunningBroker, running_broker
from protofleet.statistics.contribution import contribution, fold
from protofleet.statistics.counts import Counts, count
from protofleet.statistics.held_out import Samples
from protofleet.statistics.knowledge import Knowledge
from protofleet.values.prototypes import Floats, Ints
from protofleet.values.sums import merge_all
from simulators.photos import learning, photographs
from simulators.photos.cameras import Camera, Watch, document, until
from simulators.photos.photographs import ALL, HoldOut, Photographs

Say = Callable[[str], None]

FLEET_TOML = """
[serve]
fleet = "f"
method = "fleet"
run = "bench"
enrol = "auto"
[contract]
extractor = {extractor}
[ledger]
interval = {interval}
settle = {settle}
"""
FEW = 5  # photographs of the new class
ACCOUNT = 21.0  # seconds: two turns of the broker's account, which it brings up to date every ten
PATIENCE = 900.0  # seconds for whatever a slow machine does
CALM = 3  # intervals: longer than from one version to the next
DAY = 86400.0


@dataclass(frozen=True)
class LiveOptions:
    """What is run."""

    data: Path
    extractor: Path
    new: str = ""  # the class that comes later; by default the last
    interval: float = 1.0
    settle: float = 5.0
    idle: float = 0.0
    starts: int = 0
    python: str = sys.executable  # of the devices
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Laboratory:
    """The same fleet in memory."""

    photographs: Photographs
    parts: HoldOut
    label: int  # of the class that comes later
    knowledge: Knowledge
    state: str

    @property
    def test(self) -> Ints:
        """Rows that nobody learns from, of the classes that are there from the start."""
        return photographs.without(self.photographs, self.parts.test, self.label)


def laboratory(options: LiveOptions, say: Say) -> Laboratory:
    """Every photograph looked at as a device looks at it, and what comes of it."""
    classifier = Classifier(options.extractor)
    kind = classifier.bundle.manifest.input

    def embed(files: Any) -> Floats:
        rows = []
        for number, file in enumerate(files):
            if not number % 100:
                say(f"the laboratory looks at photographs: {number} of {len(files)}")
            rows.append(classifier.embed(images.read(file, kind)[None])[0])
        return np.stack(rows)

    seen = _with_last(photographs.embedded(options.data, embed), options.new)
    label = len(seen.classes) - 1
    parts = photographs.split(seen, options.seed, ALL)
    rows = {
        domain: np.sort(photographs.without(seen, own, label))
        for domain, own in learning.rows_of(seen, parts).items()
    }
    x, y, grid = seen.features, seen.labels, fleet.GRID
    own = {d: contribution(x[at], y[at], grid, fleet.Hyper().rank) for d, at in rows.items()}
    total = merge_all(fold(one, grid) for one in own.values())
    # Counted against what devices are told of the sums, which have S in half precision.
    first, _ = states.state(total)
    whole = states.moments(as_published(first, "half", fleet.recipe.precision).shared)
    counts = [count(whole, Samples.of(x[at], y[at], own[d], grid)) for d, at in rows.items()]
    state, knowledge = states.state(total, reduce(Counts.plus, counts))
    assert knowledge is not None  # there is a device
    published = as_published(state, "half", fleet.recipe.precision)
    return Laboratory(seen, parts, label, knowledge, published.sha256)


def _with_last(seen: Photographs, new: str) -> Photographs:
    """The class that comes later behind all others: ids of these are then a ledger's, which knows
    of no other.
    """
    if new and new not in seen.classes:
        raise UsageError(f"there is no class {new!r}", f"there are {', '.join(seen.classes)}")
    last = new or seen.classes[-1]
    classes = (*(name for name in seen.classes if name != last), last)
    ids = np.array([classes.index(name) for name in seen.classes], np.int64)
    return replace(seen, labels=ids[seen.labels], classes=classes)


def bench_ledger(options: LiveOptions, folder: Path, say: Say) -> dict[str, Any]:
    """All of the table above."""
    lab = laboratory(options, say)
    classes, names = lab.photographs.classes, lab.photographs.domain_names
    if len(names) < 2:
        raise DataError(f"{options.data}: two domains are due")
    files = _dealt(options, lab, folder / "photos")
    hits = lab.knowledge.labels(lab.photographs.features[lab.test])
    accuracy = photographs.share(hits == lab.photographs.labels[lab.test])
    answer: dict[str, Any] = {
        "devices": {name: {"photos": files[name]} for name in names},
        "laboratory": {"accuracy": accuracy, "state": lab.state},
    }
    with _live(options, folder / "first", say) as (coordinator, broker):
        cameras = [_camera(options, name, folder, "first", broker) for name in names]
        try:
            with Watch(cameras):
                answer |= _started(options, lab, cameras, coordinator, answer["devices"], say)
                if options.idle:
                    say(f"idle for {options.idle:g} s")
                    answer["idle"] = _idle(options.idle, cameras, coordinator, broker)
                answer["new_class"] = _new_class(lab, cameras, folder, coordinator)
                say(f"{names[-1]} is forgotten")
                cameras[-1].stop()
                answer["forgotten"] = _forgotten(names[-1], coordinator)
                swapped = _mislabelled(options, folder, names[-1], classes, broker)
                cameras.append(swapped)
                answer["suspects"] = _suspects(swapped, coordinator)
            for camera in cameras[: len(names)]:
                answer["devices"][camera.name] |= document(camera)
        finally:
            for camera in cameras:
                camera.stop()
    answer["starts"] = [_again(options, lab, folder, n, say) for n in range(options.starts)]
    return answer


def _started(
    options: LiveOptions,
    lab: Laboratory,
    cameras: list[Camera],
    coordinator: Path,
    devices: dict[str, Any],
    say: Say,
) -> dict[str, Any]:
    """From the start of the devices to the classifier of all of them."""
    began = time.monotonic()
    for camera in cameras:
        camera.start()
    say("devices look at their photographs")
    until(lambda: _ledger(coordinator).get("classes"), "a first classifier", PATIENCE)
    first = time.monotonic() - began
    until(lambda: _contributed(coordinator, cameras), "every contribution", PATIENCE)
    everybody = time.monotonic() - began
    until(lambda: all(c.watched.cpu_contributed for c in cameras), "looks at devices", PATIENCE)
    for camera in cameras:
        seconds = 100 * camera.watched.cpu_contributed
        devices[camera.name]["cpu_per_100"] = seconds / devices[camera.name]["photos"]
    say("devices count")
    counted = _counted(options, coordinator, cameras)
    last = time.monotonic() - began
    until(lambda: all(_has(camera, counted) for camera in cameras), "the state", PATIENCE)
    accuracies = {c.name: _accuracy(lab, c, lab.test) for c in cameras}
    return {
        "seconds": {"first": first, "everybody": everybody, "counted": last},
        "live": {
            "accuracy": accuracies,
            "state": counted["state_sha256"],
            "same": counted["state_sha256"] == lab.state,
        },
    }


def _new_class(
    lab: Laboratory, cameras: list[Camera], folder: Path, coordinator: Path
) -> dict[str, Any]:
    """Five photographs on the first device, answered by the second."""
    one, other, name = cameras[0], cameras[1], lab.photographs.classes[lab.label]
    few = sorted((folder / "new" / one.name).iterdir())[:FEW]
    tested = lab.parts.test[lab.photographs.labels[lab.parts.test] == lab.label]
    before = _accuracy(lab, other, lab.test)
    words = ["enroll", "--bundle", one.bundle, "--label", name, "--id", one.name, *few]
    _run(one.python, "edge_agent", *words)
    began = time.monotonic()
    until(lambda: name in _names(other), f"{name} on {other.name}", PATIENCE)
    seconds = time.monotonic() - began
    return {
        "class": name,
        "seconds": seconds,
        "new": _accuracy(lab, other, tested),
        "others_before": before,
        "others_after": _accuracy(lab, other, lab.test),
    }


def _forgotten(name: str, coordinator: Path) -> dict[str, Any]:
    words = ["forget", name, "--data-dir", coordinator, "--json"]
    answer: dict[str, Any] = json.loads(_run(sys.executable, "coordinator", *words))
    return {key: answer[key] for key in ("before", "after", "proof")}


def _mislabelled(
    options: LiveOptions, folder: Path, name: str, classes: tuple[str, ...], broker: RunningBroker
) -> Camera:
    """The last device under another name, its first two classes in each other's place."""
    album, swapped = folder / "photos" / name, folder / "photos" / f"{name}-swapped"
    shutil.copytree(album, swapped, symlinks=True)
    one, two = (swapped / "train" / label for label in sorted(os.listdir(album / "train"))[:2])
    one.rename(swapped / "aside")
    two.rename(one)
    (swapped / "aside").rename(two)
    camera = _camera(options, f"{name}-swapped", folder, "first", broker)
    _with_features(folder / "first" / name, camera)
    camera.start()
    return camera


def _suspects(camera: Camera, coordinator: Path) -> list[str]:
    def named() -> list[str]:
        every: list[str] = _ledger(coordinator).get("suspects", [])
        return every if any(camera.name in sentence for sentence in every) else []

    return until(named, "suspects", PATIENCE)


def _idle(
    seconds: float, cameras: list[Camera], coordinator: Path, broker: RunningBroker
) -> dict[str, float]:
    """What a day would cost if it went on like this."""

    def sizes() -> tuple[int, int]:
        logs = sum((camera.folder / "log").stat().st_size for camera in cameras)
        return logs, sum(p.stat().st_size for p in coordinator.rglob("*") if p.is_file())

    time.sleep(ACCOUNT)  # what was said before is in the broker's account now
    before, traffic, cpu = sizes(), _traffic(broker), [camera.cpu for camera in cameras]
    began = time.monotonic()
    time.sleep(seconds)
    times = DAY / (time.monotonic() - began)
    after, logs_and_journal = _traffic(broker), sizes()
    count = len(cameras)
    return {
        "bytes_a_device_and_day": times * (after - traffic) / count,
        "log_bytes_a_device_and_day": times * (logs_and_journal[0] - before[0]) / count,
        "journal_bytes_a_day": times * (logs_and_journal[1] - before[1]),
        "cpu_seconds_a_device_and_day": times
        * sum(c.cpu - was for c, was in zip(cameras, cpu, strict=True))
        / count,
    }


def _traffic(broker: RunningBroker) -> int:
    """Bytes in and out of the broker, by its own account."""
    import paho.mqtt.client as mqtt
    from paho.mqtt.enums import CallbackAPIVersion

    numbers: dict[str, int] = {}
    client = mqtt.Client(CallbackAPIVersion.VERSION2)
    client.on_message = lambda c, u, m: numbers.__setitem__(m.topic, int(m.payload))
    client.connect(broker.address.host, broker.address.port)
    client.subscribe([("$SYS/broker/bytes/received", 0), ("$SYS/broker/bytes/sent", 0)])
    client.loop_start()
    try:
        until(lambda: len(numbers) == 2, "the broker's account", 30)
    finally:
        client.loop_stop()
        client.disconnect()
    return sum(numbers.values())


def _again(
    options: LiveOptions, lab: Laboratory, folder: Path, number: int, say: Say
) -> dict[str, Any]:
    """The same devices in another order, with what they looked at before."""
    place, names = f"again-{number}", list(lab.photographs.domain_names)
    rng = random.Random(f"{options.seed}:{number}")
    rng.shuffle(names)
    say(f"start {number + 1} of {options.starts}: {', '.join(names)}")
    with _live(options, folder / place, say) as (coordinator, broker):
        cameras = [_camera(options, name, folder, place, broker) for name in names]
        try:
            for camera in cameras:
                _with_features(folder / "first" / camera.name, camera)
                camera.start()
                time.sleep(rng.uniform(0.0, 2 * options.interval))
            state = _counted(options, coordinator, cameras)
        finally:
            for camera in cameras:
                camera.stop()
    return {"order": names, "state": state["state_sha256"]}


@contextmanager
def _live(options: LiveOptions, folder: Path, say: Say) -> Iterator[tuple[Path, RunningBroker]]:
    """A broker and a coordinator; where its data is."""
    folder.mkdir(parents=True)
    extractor = json.dumps(str(options.extractor.resolve()))
    settings = FLEET_TOML.format(
        extractor=extractor, interval=options.interval, settle=options.settle
    )
    (folder / "fleet.toml").write_text(settings)
    with running_broker(folder / "broker") as broker, (folder / "log").open("ab") as log:
        words = ["serve", "--config", str(folder / "fleet.toml"), "--broker", str(broker.address)]
        command = [sys.executable, "-m", "coordinator", *words]
        service = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            coordinator = folder / "coordinator-data"
            until(lambda: _ledger(coordinator), "the coordinator", PATIENCE)
            yield coordinator, broker
        finally:
            service.terminate()
            service.wait(20)


def _camera(
    options: LiveOptions, name: str, folder: Path, place: str, broker: RunningBroker
) -> Camera:
    home = folder / place / name
    return Camera(name, folder / "photos" / name, home, str(broker.address), options.python)


def _with_features(before: Path, camera: Camera) -> None:
    """The bundle and the features of an earlier life, and nothing of what was said in it."""
    camera.folder.mkdir(parents=True)
    shutil.copy(before / "fleet.pfb", camera.folder)
    for features in before.glob("fleet.pfb.contributed/*/features.bin"):
        home = camera.folder / "fleet.pfb.contributed" / features.parent.name
        home.mkdir(parents=True)
        shutil.copy(features, home)


def _dealt(options: LiveOptions, lab: Laboratory, photos: Path) -> dict[str, int]:
    """Links to the photographs as devices have them; how many each learns from."""
    from edge_agent.data.files import find

    seen, counts = lab.photographs, dict.fromkeys(lab.photographs.domain_names, 0)
    train = set(lab.parts.train.tolist())
    for row, file in enumerate(find(options.data)):
        # A split `test` of its own: a device learns from everything else.
        part = "train" if row in train else "test"
        target = photos / file.group / part / file.label
        if seen.labels[row] == lab.label:
            target = photos.parent / "new" / file.group
            if part == "test":
                continue
        elif part == "train":
            counts[file.group] += 1
        target.mkdir(parents=True, exist_ok=True)
        (target / file.path.name).symlink_to(file.path.resolve())
    return counts


def _accuracy(lab: Laboratory, camera: Camera, rows: Ints) -> float:
    """Of the classifier that a device has on disk; its extractor is the laboratory's, to the bit,
    so the features are not made again.
    """
    classifier = Classifier(camera.bundle, check=False)
    cache.settled(classifier, camera.bundle)
    loaded = classifier.loaded
    scores = precisely(lab.photographs.features[rows], loaded.ready)
    best = loaded.ready.by_class(scores, loaded.bank.kind).argmax(1)
    answers = np.array([lab.photographs.classes.index(name) for name in loaded.labels])[best]
    return photographs.share(answers == lab.photographs.labels[rows])


def _names(camera: Camera) -> tuple[str, ...]:
    state = cache.read(cache.state_file(camera.bundle))
    if state is None:
        return ()
    return tuple(state.bank.about.classes[c] for c in state.bank.points.classes.tolist())


def _has(camera: Camera, counted: dict[str, Any]) -> bool:
    state = cache.read(cache.state_file(camera.bundle))
    sure = None if state is None else state.bank.about.calibration
    return sure is not None and sure.samples == counted["calibrated_by"] and sure.current


def _ledger(coordinator: Path) -> dict[str, Any]:
    try:
        ledger: dict[str, Any] | None = ask(coordinator, "status")["ledger"]
    except NotRunning:
        return {}
    return ledger or {}


def _contributed(coordinator: Path, cameras: list[Camera]) -> bool:
    return _ledger(coordinator).get("devices") == len(cameras)


def _counted(options: LiveOptions, coordinator: Path, cameras: list[Camera]) -> dict[str, Any]:
    """The ledger, once all contributed, all counted against all of it, and a version was made of
    all counts.
    """

    def calm() -> dict[str, Any] | None:
        ledger, count = _ledger(coordinator), len(cameras)
        if not ledger.get("devices") == ledger.get("counted") == count or not ledger["current"]:
            return None
        time.sleep(CALM * options.interval)
        later = _ledger(coordinator)
        same = all(later[name] == ledger[name] for name in ("version", "calibrated_by", "total"))
        return later if same else None

    return until(calm, "all counts", PATIENCE)


def _run(python: str, module: str, *words: object) -> str:
    command = [python, "-m", module, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError(f"{module} {words[0]}: {done.stderr.strip()}")
    return done.stdout
