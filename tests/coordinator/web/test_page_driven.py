"""The operator's page in Chromium: every view and every button on a live fleet of five, and what
takes no fleet on a service that answers as it is told.
"""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from queue import SimpleQueue

import numpy as np
import paho.mqtt.client as mqtt
import pytest

from coordinator.service.control import Control, NotRunning, ask
from protofleet import wire
from protofleet.exchange.published import About, Bank
from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.broker.run import running_broker
from protofleet.mqtt.topics import Topics
from protofleet.values.prototypes import Prototypes
from tests import contributing
from tests.browsing import (
    PHONE,
    axe,
    barriers,
    browser,
    evaluated,
    free_port,
    is_too_wide,
    needs_chromium,
    opened,
)
from tests.coordinator.made import birth, packed_bundle
from tests.linking import eventually
from tests.serving import FLEET

__all__ = ["axe"]

pytestmark = needs_chromium
needs_broker = pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")

LEDGER = "\n[ledger]\ninterval = 0.1\nsettle = 0.5\n"
CAMERAS = ("desk", "door", "gate", "shed", "yard")
TOPICS = Topics(contributing.FLEET)
SHOTS = os.environ.get("PROTOFLEET_SCREENSHOTS")  # a folder: what was seen is left there


class Cameras:
    """Five devices over the wire: what each says is written here, word by word."""

    def __init__(self, port):
        self.total = b""
        self.clients = {}
        for name in CAMERAS:
            client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=name)
            client.will_set(TOPICS.state(name), self.birth(name, online=False), 1, True)
            client.connect("127.0.0.1", port)
            client.loop_start()
            client.publish(TOPICS.state(name), self.birth(name), 1, True).wait_for_publish(60)
            self.clients[name] = client
        listener = self.clients["desk"]
        listener.on_message = lambda c, u, message: setattr(self, "total", message.payload)
        listener.subscribe(TOPICS.proto("total"), 1)

    def birth(self, name, online=True):
        classes = ["a", "b", "owl"] if name == "yard" else ["a", "b"]
        return birth(name, online=online, classes=classes)[1]

    def classes(self, name):
        return ["a", "b", "owl"] if name == "gate" else ["a", "b"]

    def contribute(self):
        for n, name in enumerate(CAMERAS):
            self.say(name, TOPICS.upload(name, 0), self.contribution(name, n))

    def contribution(self, name, seed, **more):
        return contributing.message(name, self.classes(name), seed, number=12, **more)

    def count(self):
        eventually(lambda: self.total)
        for n, name in enumerate(CAMERAS):
            words = contributing.counted(name, self.classes(name), self.total, n, number=12)
            self.say(name, TOPICS.upload(name, 0), words)

    def report(self, name, body):
        envelope = wire.Envelope("report", contributing.FLEET, agent=name, round=0)
        self.say(name, TOPICS.report(name), wire.encode(envelope, body))

    def say(self, name, topic, payload):
        self.clients[name].publish(topic, payload, 1).wait_for_publish(60)

    def close(self):
        for client in self.clients.values():
            client.loop_stop()
            client.disconnect()


class Stage:
    """A broker, a coordinator with its page, and five cameras."""

    def __init__(self, folder, broker):
        self.data, self.port = folder / "coordinator-data", free_port()
        self.url = f"http://127.0.0.1:{self.port}/"
        config, self.log = folder / "fleet.toml", folder / "log"
        config.write_text(
            FLEET.format(packet=131_072)
            .replace('"f"', '"orchard"')
            .replace("[contract]", "enrol = 'manual'\n[contract]")
            + LEDGER
        )
        words = ["serve", "--config", str(config), "--broker", broker]
        words += ["--http", f"127.0.0.1:{self.port}"]
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "coordinator", *words]
            self.service = subprocess.Popen(command, stderr=log, cwd=Path(__file__).parents[3])
        eventually(lambda: self.status() is not None)
        bank = Bank(
            About(contributing.LINEAGE, ()), Prototypes([], np.zeros((0, contributing.WIDTH)))
        )
        bundle = packed_bundle(folder / "b.pfb", bank)
        ask(self.data, "classes", what="freeze", file=str(bundle))

    def status(self):
        try:
            return ask(self.data, "status")
        except NotRunning:
            return None

    @property
    def token(self):
        return re.search(r"#token=(\S+)", self.log.read_text())[1]

    def ready(self):
        return self.asks("/readyz") == 200

    def asks(self, path):
        try:
            page = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            page.request("GET", path)
            return page.getresponse().status
        except OSError:
            return 0

    def page_pid(self):
        pids = [
            p
            for t in Path(f"/proc/{self.service.pid}/task").iterdir()
            for p in (t / "children").read_text().split()
        ]
        return next(
            int(p) for p in pids if b"web" in Path(f"/proc/{p}/cmdline").read_bytes().split(b"\0")
        )

    def close(self):
        self.service.terminate()
        self.service.wait(60)


@pytest.fixture(scope="module")
def chromium():
    with browser() as process:
        yield process


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stage")
    with running_broker(folder / "broker", prefer="mosquitto") as broker:
        stage = Stage(folder, str(broker.address))
        cameras = Cameras(broker.address.port)
        try:
            cameras.contribute()
            stage.cameras = cameras
            yield stage
        finally:
            cameras.close()
            stage.close()


LOOKS = (({"width": 360, "height": 740}, "dark"), ({"width": 1280, "height": 860}, "light"))


def look(window, name, axe=None):
    """The view of this name; nobody is kept out of it, on a phone or by its colours."""
    window.get_by_role("navigation").get_by_role("link", name=name).click()
    window.locator("nav [aria-current]").get_by_text(name).wait_for()
    before = window.viewport_size
    for size, scheme in LOOKS:
        window.set_viewport_size(size)
        window.emulate_media(color_scheme=scheme)
        assert not is_too_wide(window), (name, size)
        if axe is not None:
            assert barriers(window, axe) == [], (name, size, scheme)
        if SHOTS:
            window.screenshot(path=f"{SHOTS}/{name}-{scheme}.png", full_page=True)
    window.set_viewport_size(before)


def press(window, button, within=None):
    (within or window).get_by_role("button", name=button, exact=True).click()


def sees(window, words, place="main"):
    """It is on the page, or comes."""
    window.locator(place).get_by_text(words).first.wait_for()


@needs_broker
def test_a_person_sees_and_steers_a_live_fleet_of_five(stage, chromium, axe):
    stage.cameras.count()
    stage.cameras.report("door", {"notice": "left out: the fleet has no class 'elk'"})
    eventually(stage.ready)
    window = opened(chromium, stage.url)
    for name in CAMERAS:
        sees(window, name)
    sees(window, "left out: the fleet has no class 'elk'")
    sees(window, "1 class left out")
    sees(window, "owl waits for your word.")
    look(window, "Learning", axe)
    sees(window, "What is taken for what")
    sees(window, "right of")

    steer_classes(window, stage, axe)
    look(window, "Learning")
    press(window, "Pause")
    sees(window, "paused")
    press(window, "Go on")
    eventually(lambda: stage.status()["phase"] == "waiting")
    part_with(window, stage, axe)
    look(window, "Events", axe)
    sees(window, "shed was forgotten, with 1 contributions")
    window.get_by_label("Kind").select_option("contributed")
    window.get_by_label("Device").fill("gate")
    window.get_by_label("Device").press("Enter")
    sees(window, "gate contributed 36 samples of 3 classes")
    window.get_by_text("desk contributed").first.wait_for(state="detached")
    press(window, "Sign out")
    window.get_by_role("button", name="Sign in to steer").wait_for()
    window.context.close()


def steer_classes(window, stage, axe):
    """Looking is free here; steering asks for the token first."""
    look(window, "Classes", axe)
    press(window, "Admit owl")
    dialog = window.get_by_role("dialog")
    dialog.get_by_label("Token").fill("wrong" * 9)
    press(window, "Sign in", dialog)
    sees(window, "that is not this page's token", "#word")
    press(window, "Admit owl")
    dialog.get_by_label("Token").fill(stage.token)
    press(window, "Sign in", dialog)
    sees(window, "owl is admitted.", "#word")
    assert stage.token not in evaluated(window, "document.cookie + location.href")
    press(window, "Rename owl")
    dialog.get_by_label("Its new name").fill("eagle")
    dialog.get_by_label("Its new name").press("Enter")
    sees(window, "eagle")
    press(window, "Remove eagle")
    press(window, "Remove it", dialog)
    press(window, "Let eagle in again")
    sees(window, "eagle is back.", "#word")
    press(window, "Go back to version 2")
    press(window, "Cancel", dialog)
    press(window, "Go back to version 2")
    press(window, "Go back", dialog)
    sees(window, "back 2")
    assert ask(stage.data, "classes", what="list")["versions"][-1]["why"] == "back 2"


def part_with(window, stage, axe):
    """One device is looked for, looked at and forgotten."""
    dialog = window.get_by_role("dialog")
    look(window, "Fleet", axe)
    window.get_by_label("Part of a name").fill("sh")
    sees(window, "1 of 5 devices")
    window.get_by_role("link", name="shed").click()
    sees(window, "What is odd")
    assert barriers(window, axe) == []
    press(window, "Forget …")
    press(window, "Forget it", dialog)
    sees(window, "shed is forgotten.", "#word")
    eventually(lambda: stage.status()["ledger"]["devices"] == 4)


@needs_broker
def test_a_page_that_is_killed_or_flooded_is_nothing_to_its_fleet(stage, chromium):
    eventually(stage.ready)
    window = opened(chromium, stage.url)
    sees(window, "desk")
    pid = stage.page_pid()
    os.kill(pid, signal.SIGKILL)
    assert stage.status()["connected"]
    eventually(lambda: stage.asks("/healthz") == 200)
    assert stage.page_pid() != pid
    answers = []

    def flood():
        page = http.client.HTTPConnection("127.0.0.1", stage.port, timeout=60)
        for _ in range(200):
            page.request("GET", "/api/fleet")
            answer = page.getresponse()
            answer.read()
            answers.append(answer.status)

    threads = [threading.Thread(target=flood) for _ in range(2)]
    for thread in threads:
        thread.start()
    before = stage.status()["ledger"]["samples"]
    stage.cameras.say(
        "desk",
        TOPICS.upload("desk", 0),
        contributing.message("desk", ["a"], 50, number=40),
    )
    eventually(lambda: stage.status()["ledger"]["samples"] not in (before, 0))
    for thread in threads:
        thread.join(600)
    assert set(answers) <= {200, 429}
    # The window that was open all the while goes on by itself.
    stage.cameras.report("yard", {"notice": "said after all of that"})
    sees(window, "said after all of that")
    window.context.close()


ROW = {
    "online": True,
    "left": False,
    "gone": False,
    "seen_seconds_ago": 3.0,
    "round": None,
    "accuracy": {"test": 0.9},
    "declines": "",
    "version": "1.2.3",
    "runs": "b" * 64,
    "classes": ["a"],
}
STATUS = {
    "fleet": "orchard",
    "connected": True,
    "alerts": [],
    "ledger": None,
    "accuracy": {},
    "version": "1",
    "method": "fleet",
    "phase": "waiting",
    "round": 1,
    "answered": 0,
    "asked": 0,
    "state_round": 0,
    "agents_online": 1000,
    "agents_known": 1000,
    "agents_gone": 0,
    "uptime_seconds": 60.0,
}
ROLLOUT = {
    "rollout": 3,
    "kind": "bundle",
    "bundle": "b" * 64,
    "state": "",
    "phase": "open",
    "words": "",
    "group": 1,
    "groups": [
        {"group": 1, "share": 0.05, "opened": True, "waiting": 30, "proven": 20, "silent": 0}
    ],
    "canaries": [],
    "most_errors": 0.02,
    "trigger": 0.9,
    "samples": 100,
    "before": 0.9,
    "after": 0.92,
    "agreement": 0.97,
    "devices": [
        {
            "agent": "camera-0001",
            "group": 1,
            "is": "proven",
            "seconds": 9.0,
            "words": "",
            "step": "proven",
        }
    ],
}


@pytest.fixture
def service(tmp_path):
    """A thousand devices, a member and a rollout, without a fleet; what was asked, and the page."""
    asked, phase = [], ["none"]
    rows = [{**ROW, "agent": f"camera-{n:04}"} for n in range(1000)]

    def look(request):
        command, words = request.command, request.arguments
        if command == "rollout" and words["what"] not in ("status", "list"):
            asked.append((words["what"], words))
            phase[0] = {"start": "open", "resume": "open", "halt": "halted", "back": "back"}[
                words["what"]
            ]
        elif command == "revoke":
            asked.append((command, words))
        rollout = (
            {"rollout": None, "devices": [], "groups": []}
            if phase[0] == "none"
            else {**ROLLOUT, "phase": phase[0]}
        )
        return {
            "status": STATUS,
            "agents": {"agents": rows},
            "members": {
                "members": [{"name": "camera-0007", "joined": 1.0, "ends": 2e9, "revoked": None}]
            },
            "events": {"events": [], "kinds": [], "more": False},
            "rollout": rollout if words.get("what") != "list" else {"rollouts": []},
        }.get(command, {})

    control = Control(tmp_path, SimpleQueue(), lambda: None, look)
    port = free_port()
    command = [sys.executable, "-m", "coordinator", "web", "--data-dir", str(tmp_path)]
    page = subprocess.Popen(
        [*command, "--http", f"127.0.0.1:{port}"],
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    try:
        yield re.search(r"http\S+", page.stderr.readline())[0], asked
    finally:
        page.terminate()
        page.wait(60)
        page.stderr.close()
        control.close()


def test_a_thousand_devices_a_member_and_a_rollout(service, chromium, axe):
    url, asked = service
    window = opened(chromium, url, viewport=PHONE, color_scheme="dark")
    window.locator("table.fleet tbody tr").nth(999).wait_for()
    took = evaluated(window, "performance.now()")
    print(f"1,000 devices on the page {took:.0f} ms after it was asked for")
    assert not is_too_wide(window)
    window.goto(url.partition("#")[0] + "#/device/camera-0007")
    press(window, "Revoke …")
    press(window, "Revoke it", window.get_by_role("dialog"))
    sees(window, "camera-0007 is revoked.", "#word")
    assert asked.pop() == ("revoke", {"agent": "camera-0007"})

    look(window, "Rollouts", axe)
    press(window, "Start a rollout …")
    dialog = window.get_by_role("dialog")
    dialog.get_by_label("Bundle").fill("new.pfb")
    press(window, "Start", dialog)
    sees(window, "20 proven")
    sees(window, "Halts above 2 % failures")
    assert asked.pop() == (
        "start",
        {
            "what": "start",
            "by": "the page",
            "file": "new.pfb",
            "groups": [0.05, 0.5, 1],
            "error": 0.02,
            "trigger": 0.9,
            "canaries": [],
        },
    )
    assert barriers(window, axe) == []
    press(window, "Halt")
    press(window, "Go on")
    press(window, "Roll back …")
    press(window, "Roll back", dialog)
    sees(window, "rolled back")
    assert [what for what, _ in asked] == ["halt", "resume", "back"]
    assert json.dumps(window.complaints) == "[]"
    window.context.close()
