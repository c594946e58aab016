"""The same evening live: four devices that nobody labelled anything on, and a person who knows the
truth and has nothing but their pages.
"""

# Theory of operation
#
# A broker, a coordinator whose fleet knows no class, a device a domain (`edge-agent run` with
# `[page] listen`, its folder of samples empty). Each device sees its photographs once (`edge-agent
# infer --collect`), which fills its queue; as no class is known, with everything. Then the person
# goes from page to page: GET /api/queue, and POST /do/label for the first VISIT pictures. A picture
# is known by its key, the hash of its file, as the queue keeps small JPEGs to the byte.
#
# Between two visits the person waits until the coordinator has what was tapped. Accuracy is what
# the classifier on a device's disk comes to, on photographs that no device was shown, by features
# that the laboratory made with the same extractor.

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from coordinator.service.control import NotRunning, ask
from edge_agent.data.files import find
from edge_agent.inference.classifier import Classifier
from edge_agent.inference.inputs import precisely
from edge_agent.updates import cache
from protofleet.errors import DataError
from protofleet.mqtt.broker.run import running_broker
from protofleet.values.prototypes import Ints
from simulators.photos.cameras import Camera, until
from simulators.photos.photographs import ALL, Photographs, share, split
from simulators.photos.taps import VISIT, Say, TapPoint

FLEET_TOML = """
[serve]
fleet = "f"
method = "fleet"
enrol = "auto"
[contract]
extractor = {extractor}
[ledger]
interval = 0.5
settle = 2.0
[settings]
minimum = 1
changed = 1
"""
PATIENCE = 600.0
PAGE = re.compile(r"page at (http://\S+?)(?:#\S*)? ")


@dataclass(frozen=True)
class Page:
    """A device's page, for who has its token."""

    url: str
    token: str

    def document(self, name: str) -> dict[str, Any]:
        """What it shows."""
        return self._answer(f"api/{name}", None)

    def act(self, name: str, words: Mapping[str, Any]) -> dict[str, Any]:
        """What may be done on it."""
        return self._answer(f"do/{name}", json.dumps(words).encode())

    def _answer(self, path: str, body: bytes | None) -> dict[str, Any]:
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        request = urllib.request.Request(f"{self.url}{path}", body, headers)
        with urllib.request.urlopen(request, timeout=60) as response:
            document: dict[str, Any] = json.load(response)
        return document


def bench_tapping(
    data: Path, extractor: Path, photographs: Photographs, taps: int, say: Say, folder: Path
) -> dict[str, Any]:
    """One live run; as `taps.bench_taps` has a seed of `queue`."""
    parts = split(photographs, 0, ALL)
    files = [file.path for file in find(data)]
    truth = {_key(file): photographs.classes[y] for file, y in _labelled(files, photographs)}
    settings = FLEET_TOML.format(extractor=json.dumps(str(extractor.resolve())))
    (folder / "fleet.toml").write_text(settings)
    with running_broker(folder / "broker") as broker, (folder / "log").open("ab") as log:
        command = [sys.executable, "-m", "coordinator", "serve"]
        command += ["--config", str(folder / "fleet.toml"), "--broker", str(broker.address)]
        service = subprocess.Popen(command, stdout=log, stderr=log)
        cameras = [_camera(folder, name, str(broker.address)) for name in photographs.domain_names]
        try:
            for camera in cameras:
                camera.start()
            for domain, camera in enumerate(cameras):
                say(f"{camera.name} looks at its photographs")
                until(camera.bundle.exists, "the extractor", PATIENCE)
                _see(camera, [files[row] for row in parts.of(photographs, domain)])
            pages = [until(partial(_page, camera), "a page", PATIENCE) for camera in cameras]
            coordinator = folder / "coordinator-data"
            points = _tapped(
                photographs, parts.test, cameras, pages, (coordinator, truth, taps, say)
            )
            undone = _undone(pages[0], coordinator)
        finally:
            for camera in cameras:
                camera.stop()
            service.terminate()
            service.wait(20)
    return {"points": [vars(point) for point in points], "undone": undone}


def _tapped(
    photographs: Photographs,
    test: Ints,
    cameras: Sequence[Camera],
    pages: Sequence[Page],
    how: tuple[Path, Mapping[str, str], int, Say],
) -> list[TapPoint]:
    coordinator, truth, most, say = how
    points: list[TapPoint] = []
    taps, names = 0, set[str]()
    for visit in range(-(-most // VISIT)):
        page = pages[visit % len(pages)]
        for picture in page.document("queue")["pictures"][: min(VISIT, most - taps)]:
            name = truth[picture["key"]]
            page.act("label", {"keys": [picture["key"]], "label": name})
            taps += 1
            names.add(name)
        began = time.monotonic()
        until(partial(_holds, coordinator, taps), "the ledger", PATIENCE)
        seconds = time.monotonic() - began
        until(lambda: len(_names(cameras[-1])) == len(names), "the classes", PATIENCE)
        accuracy = _accuracy(photographs, cameras[-1], test)
        say(f"{taps} taps: {100 * accuracy:.1f} %, in the fleet after {seconds:.1f} s")
        points.append(TapPoint(taps, taps, len(names), accuracy))
    return points


def _undone(page: Page, coordinator: Path) -> dict[str, Any]:
    """The last tap of a device is taken back, and put there again."""
    before, began = _samples(coordinator), time.monotonic()
    page.act("undo", {})
    until(partial(_holds, coordinator, before - 1), "the undone", PATIENCE)
    return {"samples": [before, before - 1], "seconds": time.monotonic() - began}


def _camera(folder: Path, name: str, broker: str) -> Camera:
    photos = folder / name / "photos"
    photos.mkdir(parents=True)
    words = ("--set", "page.listen=127.0.0.1:0", "--set", "recent.pictures=1000")
    return Camera(name, photos, folder / name / "data", broker, words=words)


def _see(camera: Camera, files: Sequence[Path]) -> None:
    """Each photograph is before the camera once."""
    words = ["infer", "--bundle", str(camera.bundle), "--collect", "--json", *map(str, files)]
    command = [camera.python, "-m", "edge_agent", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DataError(f"infer: {done.stderr.strip()}")


def _page(camera: Camera) -> Page | None:
    urls = PAGE.findall((camera.folder / "log").read_text())
    token = camera.folder / "page.token"
    return Page(urls[-1], token.read_text().strip()) if urls and token.exists() else None


def _labelled(files: Sequence[Path], photographs: Photographs) -> list[tuple[Path, int]]:
    return list(zip(files, photographs.labels.tolist(), strict=True))


def _key(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest()


def _samples(coordinator: Path) -> int:
    try:
        ledger = ask(coordinator, "status")["ledger"] or {}
    except NotRunning:
        return -1
    return int(ledger.get("samples", 0))


def _holds(coordinator: Path, samples: int) -> bool:
    return _samples(coordinator) == samples


def _names(camera: Camera) -> tuple[str, ...]:
    state = cache.read(cache.state_file(camera.bundle))
    if state is None:
        return ()
    return tuple(state.bank.about.classes[c] for c in state.bank.points.classes.tolist())


def _accuracy(photographs: Photographs, camera: Camera, rows: Ints) -> float:
    classifier = Classifier(camera.bundle, check=False)
    cache.settled(classifier, camera.bundle)
    loaded = classifier.loaded
    scores = precisely(photographs.features[rows], loaded.ready)
    best = loaded.ready.by_class(scores, loaded.bank.kind).argmax(1)
    answers = np.array([photographs.classes.index(name) for name in loaded.labels])[best]
    return share(answers == photographs.labels[rows])
