"""The owner's page in Chromium on a live fleet of five devices: every action and every button, and
where what is tapped ends.
"""

import json
import os
import re
import subprocess
import sys
import threading

import paho.mqtt.client as mqtt
import pytest
from PIL import Image

from edge_agent.page.owner import owner_site
from edge_agent.recent.queue import RecentBounds, RecentQueue
from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.broker.run import running_broker
from tests.browsing import (
    Driven,
    axe,
    barriers,
    browser,
    changing,
    evaluated,
    is_too_wide,
    needs_chromium,
    opened,
)
from tests.edge_agent.page.owned import bundle_of
from tests.edge_agent.scripted import ROOT, until
from tests.networks import extractor_bundle, pictures
from tests.staging import Stage

__all__ = ["axe"]

pytestmark = [
    pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed"),
    needs_chromium,
]
PATIENCE = 300_000  # milliseconds
# The other four, and what they have photos of.
OTHERS = {
    "yard": {"red": (1, 9), "blue": (2, 9)},
    "gate": {"red": (1, 7), "blue": (2, 6)},
    "shed": {"red": (1, 8)},
    "desk": {"blue": (2, 5)},
}
THEIRS = 44  # photos
SHOTS = os.environ.get("PROTOFLEET_SCREENSHOTS")  # a folder for who wants to look
PAGE = re.compile(r"page at (http://\S+?)#(token=\S+) ")


class Everything:
    """Whatever crosses the broker."""

    def __init__(self, port):
        self.payloads, self._turn = [], threading.Lock()
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        self.client.on_message = self._came
        self.client.connect("127.0.0.1", port)
        self.client.subscribe("#", 1)
        self.client.loop_start()

    def _came(self, client, data, message):
        with self._turn:
            self.payloads.append(message.topic.encode() + b" " + message.payload)

    def stop(self):
        self.client.loop_stop()
        self.client.disconnect()
        return b"\n".join(self.payloads)


@pytest.fixture
def stage(tmp_path):
    extractor_bundle(tmp_path / "x.pfb")
    with running_broker(tmp_path / "broker", prefer="mosquitto") as broker:
        everything = Everything(broker.address.port)
        stage = Stage(tmp_path, broker.address.port, "[settings]\nminimum = 1\nchanged = 1\n")
        try:
            yield stage, everything
        finally:
            stage.close()


@pytest.fixture
def chromium():
    with browser() as process:
        yield process


def see(device, folder, **colours):
    """The camera sees so many pictures of colours, once."""
    folder.mkdir(exist_ok=True)
    for name, (seed, count) in colours.items():
        for n, image in enumerate(pictures(seed, count)):
            large = Image.fromarray(image).resize((96, 72), Image.Resampling.NEAREST)
            large.save(folder / f"{name}-{n}.jpg", quality=95)
    command = [sys.executable, "-m", "edge_agent", "infer", "--bundle"]
    command += [device.folder / "kept" / "fleet.pfb", "--collect", "--json", folder]
    subprocess.run(list(map(str, command)), check=True, capture_output=True, cwd=ROOT)


def names_on(device):
    """The classes that a device answers with."""
    command = [sys.executable, "-m", "edge_agent", "infer", "--json", "--top", "9", "--bundle"]
    photo = device.folder.parent / "one.png"
    Image.fromarray(pictures(1, 1)[0]).save(photo)
    command += [device.folder / "kept" / "fleet.pfb", photo]
    done = subprocess.run(list(map(str, command)), check=False, capture_output=True, cwd=ROOT)
    return (
        {b["label"] for b in json.loads(done.stdout)["answers"][0]["top"]} if done.stdout else set()
    )


def left(page, count):
    """Wait until so many pictures wait."""
    page.get_by_text(f"{count} pictures to name").wait_for()


def name_a_heap(page, token):
    """Looking is free on this machine, naming takes the token; a heap is named at once, but for a
    picture that does not belong to it. How many were named.
    """
    left(page, 26)
    assert page.get_by_role("button", name="Throw away").first.is_disabled()
    page.get_by_label("The page's token").fill(token.partition("=")[2])
    page.get_by_role("button", name="Sign in").click()
    heap = page.locator("#heaps .heap").first
    count = heap.locator("[aria-pressed=true]").count()
    assert 4 <= count <= 14
    heap.locator(".tiles button").nth(count - 1).click()
    heap.get_by_label("Name of heap 1").fill("green")
    heap.get_by_role("button", name=f"Name {count - 1} pictures").click()
    left(page, 27 - count)
    return count - 1


def by_keyboard(page, waiting):
    """A new name, the first class, throw away, later, undo."""
    page.keyboard.press("n")
    page.keyboard.type("grey")
    page.keyboard.press("Enter")
    left(page, waiting - 1)
    page.locator("#new-name").blur()
    page.keyboard.press("1")  # blue, by the letters
    left(page, waiting - 2)
    page.keyboard.press("x")
    left(page, waiting - 3)
    before = page.locator("#ask .shot").get_attribute("src")
    page.keyboard.press("l")
    other = "src => document.querySelector('#ask .shot').getAttribute('src') !== src"
    page.wait_for_function(other, arg=before)
    page.keyboard.press("u")
    left(page, waiting - 2)


def by_hand(page, waiting):
    """Taken back, chosen from the strip, corrected, confirmed, found by its letters."""
    page.get_by_role("button", name="Undo: blue").click()
    left(page, waiting - 1)
    page.locator(".strip button").nth(2).click()
    assert page.locator(".strip button").nth(2).get_attribute("aria-pressed") == "true"
    page.locator("#new-name").fill("gre")
    assert page.locator(".names button:visible").count() == 2
    page.locator(".names button", has_text="grey").click()
    left(page, waiting - 2)
    confirm = page.locator("#ask button.main")
    while not confirm.count():  # of what is unknown there is nothing to confirm
        page.get_by_role("button", name="Later").click()
    confirm.click()
    left(page, waiting - 3)
    page.locator("#ask").get_by_role("button", name="Throw away").click()
    left(page, waiting - 4)
    page.get_by_role("button", name="Undo: thrown away").click()
    left(page, waiting - 3)


def throw_a_heap(page, waiting):
    """All of it at once, and taken back."""
    heap = page.locator("#heaps .heap").first
    count = heap.locator("[aria-pressed=true]").count()
    heap.get_by_role("button", name="Throw away").click()
    left(page, waiting - count)
    page.get_by_role("button", name="Undo: thrown away").click()
    left(page, waiting)


def test_a_fleet_learns_from_what_one_owner_taps_and_no_picture_leaves_the_device(
    stage, chromium, axe
):
    stage, everything = stage
    device = stage.device("door", "--set", "page.listen=127.0.0.1:0")
    kept = device.folder / "kept"
    until((kept / "fleet.pfb").exists, "the extractor")
    see(device, stage.folder / "first", green=(4, 14), grey=(3, 9), pink=(5, 3))
    url, token = until(lambda: PAGE.search(device.log), "the page").groups()
    driven = Driven(name=".names", tile=".tiles", next=".strip")
    page = opened(chromium, url, driven, PATIENCE, viewport={"width": 1180, "height": 900})
    green = name_a_heap(page, token)
    # The fleet has it a moment later, and what others know shows here as soon as they do.
    stage.ledger(devices=1, classes=1, samples=green)
    others = [stage.device(name, **has) for name, has in OTHERS.items()]
    page.locator(".names button", has_text="red").wait_for()
    stage.ledger(devices=5, classes=3, samples=THEIRS + green)
    until(lambda: all("green" in names_on(other) for other in others), "green everywhere", 300)
    throw_a_heap(page, 26 - green)
    by_keyboard(page, 26 - green)
    by_hand(page, 26 - green)
    stage.ledger(devices=5, samples=THEIRS + 3 + green)
    page.get_by_role("button", name="Undo").click()
    stage.ledger(devices=5, samples=THEIRS + 2 + green)  # it is out of the fleet, too
    # Once the fleet has counted, it says whether that is enough.
    page.locator("#classes svg.meter").first.wait_for()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_text("Sign in to name pictures").wait_for()
    assert evaluated(page, "document.querySelector('#ask .after button:last-child').disabled")
    # Everything that can be done was done, and no button was left alone.
    site = owner_site("door", bundle_of(stage.folder), stage.folder, RecentBounds())
    assert driven.done == changing(site)
    assert driven.pressed == driven.seen
    page.context.close()
    check_looks(chromium, f"{url}#{token}", axe)
    rows = RecentQueue(kept / "fleet.pfb").pictures()
    photos = list((stage.folder / "door-photos").rglob("*.jpg"))
    assert (len(rows), len(photos)) == (26, green + 2)
    nothing_crossed(everything.stop(), rows, kept / "fleet.pfb.recent" / "pictures")


def nothing_crossed(crossed, rows, folder):
    """Of no picture is a piece on the broker: not of a file, not its name, nor whence it came."""
    assert len(crossed) > 10_000
    for row in rows:
        data = (folder / f"{row.key}.jpg").read_bytes()
        assert row.key.encode() not in crossed
        assert row.source.encode() not in crossed
        for at in range(0, len(data) - 24, 24):
            assert data[at : at + 24] not in crossed


def check_looks(chromium, address, axe):
    """By day and by night, on a desk and on a phone: nothing serious, and no scrolling sideways."""
    for width, scheme in ((1180, "light"), (360, "dark")):
        view = {"width": width, "height": 740}
        page = chromium.new_page(viewport=view, color_scheme=scheme)
        page.set_default_timeout(PATIENCE)
        page.goto(address)
        page.get_by_text("pictures to name").wait_for()
        page.locator("#classes svg.meter").first.wait_for()
        assert barriers(page, axe) == []
        assert not is_too_wide(page)
        if SHOTS:
            page.screenshot(path=f"{SHOTS}/owner-{scheme}.png", full_page=True)
        page.close()
