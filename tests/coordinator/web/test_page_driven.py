"""The operator's page in Chromium: every view and every button on a live fleet of five devices, and
a thousand of them on a service that answers as it is told.
"""

import http.client
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue

import pytest

from coordinator.service.control import Control, ask
from coordinator.web.console import site
from protofleet.exchange import archive
from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.broker.run import running_broker
from tests.browsing import (
    PHONE,
    Driven,
    axe,
    barriers,
    browser,
    changing,
    evaluated,
    free_port,
    is_too_wide,
    needs_chromium,
    opened,
)
from tests.edge_agent.scripted import ROOT
from tests.networks import extractor_bundle
from tests.staging import Stage

__all__ = ["axe"]

pytestmark = needs_chromium
needs_broker = pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")

# What each has photos of: a colour and how many. One has too few of a class, one a class of its
# own, and so has another, which an operator will not want; one takes two for each other.
CAMERAS = {
    "camera-desk": {"keyboard": (1, 14), "monitor": (2, 12), "mug": (3, 12)},
    "camera-door": {"keyboard": (1, 12), "monitor": (2, 12), "mug": (3, 3)},
    "camera-gate": {"keyboard": (1, 13), "monitor": (2, 11), "mouse": (4, 9)},
    "camera-shed": {"keyboard": (1, 12), "monitor": (2, 10), "poster": (5, 7)},
    "camera-yard": {"keyboard": (2, 12), "monitor": (1, 12), "mug": (3, 11)},
}
# Of rounds, so that there are some to be paused; none opens, and what these devices know they say
# to the ledger of the extractor that is frozen.
CONTRACT = """
classes = ["keyboard", "monitor", "mug"]
embedding = 8
[contract.input]
kind = "image"
shape = [16, 16, 3]
"""
LONG = 300_000  # milliseconds for what a live fleet does: a machine may be busy
SHOTS = os.environ.get("PROTOFLEET_SCREENSHOTS")  # a folder: the documents' pictures are made there


class Paged(Stage):
    """A fleet whose operator has a page."""

    def __init__(self, folder, broker, cameras, **how):
        self.page = free_port()
        self.url = f"http://127.0.0.1:{self.page}/"
        super().__init__(
            folder,
            broker.address.port,
            fleet="workshop",
            method="fedproto",
            enrol="manual",
            contract=CONTRACT,
            serve="min_agents = 1000\nlost_after = 2.0",
            words=("--http", f"127.0.0.1:{self.page}"),
            **how,
        )
        self.until(self.connected, "the coordinator")
        extractor_bundle(folder / "x.pfb")
        ask(self.data, "classes", what="freeze", file=str(folder / "x.pfb"))
        self.cameras = {name: self.device(name, **has) for name, has in cameras.items()}

    def connected(self):
        return self.status().get("connected")

    @property
    def token(self):
        return re.search(r"#token=(\S+)", self.log)[1]

    def answers(self, path):
        try:
            page = http.client.HTTPConnection("127.0.0.1", self.page, timeout=60)
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


@pytest.fixture(scope="module")
def chromium():
    with browser() as process:
        yield process


@pytest.fixture
def fleet(tmp_path):
    """Makes one of these cameras."""
    with ExitStack() as ends:
        broker = ends.enter_context(running_broker(tmp_path / "broker", prefer="mosquitto"))

        def made(cameras, **how):
            stage = Paged(tmp_path, broker, cameras, **how)
            ends.callback(stage.close)
            return stage

        yield made


LOOKS = (({"width": 360, "height": 740}, "dark"), ({"width": 1280, "height": 860}, "light"))


def look(window, axe):
    """Nobody is kept out of what is shown, on a phone or by its colours."""
    before = window.viewport_size
    for size, scheme in LOOKS:
        window.set_viewport_size(size)
        window.emulate_media(color_scheme=scheme)
        assert not is_too_wide(window), (window.url, size)
        assert barriers(window, axe) == [], (window.url, size, scheme)
    window.set_viewport_size(before)


def go(window, name, axe):
    """To the view of this name."""
    window.get_by_role("navigation").get_by_role("link", name=name).click()
    window.locator("nav [aria-current]").get_by_text(name).wait_for()
    look(window, axe)


def shot(window, name, width=1280, scheme="light"):
    """A picture for the documents, where somebody wants them."""
    if SHOTS:
        window.locator("#word:empty").wait_for(state="attached")
        before = window.viewport_size
        window.set_viewport_size({"width": width, "height": 844})
        window.emulate_media(color_scheme=scheme)
        window.screenshot(path=f"{SHOTS}/{name}.png", full_page=True)
        window.set_viewport_size(before)


def press(window, button, within=None):
    (within or window).get_by_role("button", name=button, exact=True).click()


def sees(window, words, place="main"):
    """It is on the page, or comes."""
    window.locator(place).get_by_text(words).first.wait_for()


@needs_broker
def test_a_person_sees_and_steers_a_live_fleet_of_five(fleet, chromium, axe):
    stage = fleet(CAMERAS, invited=CAMERAS)
    stage.ledger(devices=5, counted=5, current=True)
    driven = Driven()
    window = opened(chromium, stage.url, driven, LONG)
    see_what_is_odd(window, stage, axe)
    tabs = window.locator("nav a").all_text_contents()
    steer_classes(window, stage, axe)
    steer_rounds(window, stage, axe)
    steer_a_rollout(window, stage, axe)
    part_with_two(window, stage, axe)
    look_back(window, stage, axe)
    press(window, "Sign out")
    press(window, "Sign in to steer")
    window.get_by_role("dialog").get_by_label("Token").fill(stage.token)
    press(window, "Sign in", window.get_by_role("dialog"))
    sees(window, "You may steer now.", "#word")
    assert tabs == ["Fleet", "Learning", "Classes", "Rollouts", "Events"]
    # Everything that can be done was done, and no button was left alone.
    assert driven.done == changing(site(stage.data))
    assert driven.pressed == driven.seen
    window.context.close()


def see_what_is_odd(window, stage, axe):
    """Every device, and what is wrong; one dies, and that is seen, too."""
    for name in CAMERAS:
        sees(window, name)
    sees(window, "1 class left out: too few samples")
    sees(window, "its 'keyboard' looks like everybody else's 'monitor'")
    sees(window, re.compile("^(mouse, poster|poster, mouse) wait for your word"))
    stage.cameras["camera-shed"].process.kill()
    sees(window, "camera-shed has been silent for")
    look(window, axe)
    shot(window, "page-fleet")
    shot(window, "page-phone", width=390)
    window.get_by_label("Which devices").select_option("silent")
    sees(window, "1 of 5 devices")
    window.get_by_label("Which devices").select_option("all")
    window.get_by_role("link", name="Look at waiting").click()
    window.locator("nav [aria-current]").get_by_text("Classes").wait_for()


def steer_classes(window, stage, axe):
    """Looking is free here; steering asks for the token first."""
    look(window, axe)
    press(window, "Admit mouse")
    dialog = window.get_by_role("dialog")
    dialog.get_by_label("Token").fill("wrong" * 9)
    press(window, "Sign in", dialog)
    sees(window, "that is not this page's token", "#word")
    press(window, "Admit mouse")
    dialog.get_by_label("Token").fill(stage.token)
    press(window, "Sign in", dialog)
    sees(window, "mouse is admitted.", "#word")
    assert stage.token not in evaluated(window, "document.cookie + location.href")
    press(window, "Remove poster", window.get_by_role("row", name="camera-shed"))
    press(window, "Remove it", dialog)
    sees(window, "poster is removed.", "#word")
    press(window, "Rename mouse")
    dialog.get_by_label("Its new name").fill("pointer")
    dialog.get_by_label("Its new name").press("Enter")
    sees(window, "mouse is pointer now.", "#word")
    press(window, "Remove pointer")
    press(window, "Remove it", dialog)
    press(window, "Let pointer in again")
    sees(window, "pointer is back.", "#word")
    press(window, "Go back to version 2")
    press(window, "Cancel", dialog)
    press(window, "Go back to version 2")
    press(window, "Go back", dialog)
    sees(window, "back 2")
    assert ask(stage.data, "classes", what="list")["versions"][-1]["why"] == "back 2"


def steer_rounds(window, stage, axe):
    """What the fleet gets right, and no further round."""
    go(window, "Learning", axe)
    sees(window, "What is taken for what")
    sees(window, "right of")
    shot(window, "page-learning-dark", scheme="dark")
    press(window, "Pause")
    sees(window, "paused")
    press(window, "Go on")
    stage.until(lambda: stage.status()["phase"] == "waiting", "rounds that go on")


def steer_a_rollout(window, stage, axe):
    """The first device runs another bundle until everybody goes back."""
    kept = {n: camera.folder / "kept" / "fleet.pfb" for n, camera in stage.cameras.items()}
    before = {n: archive.name_of(file) for n, file in kept.items()}
    new = extractor_bundle(stage.folder / "new.pfb", "fp16").digest
    go(window, "Rollouts", axe)
    press(window, "Start a rollout …")
    dialog = window.get_by_role("dialog")
    dialog.get_by_label("Bundle").fill(str(stage.folder / "new.pfb"))
    dialog.get_by_label("Groups").fill("20, 100")
    dialog.get_by_label("Devices that go first").fill("camera-desk")
    press(window, "Start", dialog)
    sees(window, "under way")
    press(window, "Halt")
    sees(window, "halted")
    press(window, "Go on")
    stage.until(lambda: archive.name_of(kept["camera-desk"]) == new, "the new bundle")
    sees(window, "busy: running")
    look(window, axe)
    shot(window, "page-rollouts")
    press(window, "Roll back …")
    press(window, "Roll back", dialog)
    sees(window, "rolled back")
    stage.until(
        lambda: {n: archive.name_of(file) for n, file in kept.items()} == before,
        "the bundle that was before",
    )


def part_with_two(window, stage, axe):
    """One device is looked for, looked at and forgotten, another is a member no more."""
    dialog = window.get_by_role("dialog")
    go(window, "Fleet", axe)
    window.get_by_label("Part of a name").fill("sh")
    sees(window, "1 of 5 devices")
    window.get_by_role("link", name="camera-shed", exact=True).click()
    sees(window, "What is odd")
    look(window, axe)
    press(window, "Forget …")
    press(window, "Forget it", dialog)
    sees(window, "camera-shed is forgotten.", "#word")
    stage.ledger(devices=4)
    window.get_by_role("link", name="camera-yard", exact=True).click()
    press(window, "Revoke …")
    press(window, "Revoke it", dialog)
    sees(window, "camera-yard is revoked.", "#word")
    sees(window, "revoked", ".facts")
    members = ask(stage.data, "members")["members"]
    assert [one["name"] for one in members if one["revoked"]] == ["camera-yard"]


def look_back(window, stage, axe):
    """What happened, of a kind, of a device, and page by page."""
    for _ in range(60):
        ask(stage.data, "pause")
        ask(stage.data, "resume")
    go(window, "Events", axe)
    press(window, "Older")
    sees(window, "camera-shed was forgotten, with 1 contributions")
    press(window, "Newest")
    sees(window, "rounds go on")
    window.get_by_label("Kind").select_option("contributed")
    window.get_by_label("Device").fill("camera-gate")
    window.get_by_label("Device").press("Enter")
    sees(window, "camera-gate contributed 33 samples of 3 classes")
    window.get_by_text("camera-desk contributed").first.wait_for(state="detached")


@needs_broker
def test_a_page_that_is_killed_or_flooded_is_nothing_to_its_fleet(fleet, chromium):
    stage = fleet({"camera-desk": CAMERAS["camera-desk"]})
    before = stage.ledger(devices=1, samples=38)["samples"]
    stage.until(lambda: stage.answers("/readyz") == 200, "the page")
    window = opened(chromium, stage.url, patience=LONG)
    sees(window, "camera-desk")
    pid = stage.page_pid()
    os.kill(pid, signal.SIGKILL)
    assert stage.status()["connected"]
    stage.until(lambda: stage.answers("/healthz") == 200, "another page")
    assert stage.page_pid() != pid
    answers = []

    def flood():
        page = http.client.HTTPConnection("127.0.0.1", stage.page, timeout=60)
        for _ in range(200):
            page.request("GET", "/api/fleet")
            answer = page.getresponse()
            answer.read()
            answers.append(answer.status)

    threads = [threading.Thread(target=flood) for _ in range(2)]
    for thread in threads:
        thread.start()
    stage.photos("camera-desk", "mug", 3, 20)
    stage.ledger(devices=1, samples=before + 8)
    for thread in threads:
        thread.join(600)
    assert set(answers) <= {200, 429}
    # The window that was open all the while goes on by itself.
    sees(window, "classes of 46 samples")
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


@pytest.fixture
def service(tmp_path):
    """The page of a service that says whatever it is asked of a thousand devices."""
    rows = [{**ROW, "agent": f"camera-{n:04}"} for n in range(1000)]
    answers = {"status": STATUS, "agents": {"agents": rows}}
    control = Control(tmp_path, SimpleQueue(), lambda: None, lambda asked: answers[asked.command])
    command = [sys.executable, "-m", "coordinator", "web", "--data-dir", str(tmp_path)]
    page = subprocess.Popen(
        [*command, "--http", f"127.0.0.1:{free_port()}"],
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        yield re.search(r"http\S+", page.stderr.readline())[0]
    finally:
        page.terminate()
        page.wait(60)
        page.stderr.close()
        control.close()


def test_a_thousand_devices_are_on_a_phone_at_once(service, chromium):
    window = opened(chromium, service, viewport=PHONE, color_scheme="dark")
    window.locator("table.fleet tbody tr").nth(999).wait_for()
    took = evaluated(window, "performance.now()")
    print(f"1,000 devices on the page {took:.0f} ms after it was asked for")
    assert not is_too_wide(window)
    assert window.complaints == []
    window.context.close()
