"""A device in Home Assistant: made known once a connection, shown when it changed, forgotten when
its owner says so; and buttons that nobody can press by accident.
"""

import json
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import replace

import jinja2
import numpy as np
import pytest

from coordinator.service.control import ask
from edge_agent.config import DataSection
from edge_agent.daemon.home import BURST, EVERY, NOTED, PICTURES, REFILL, HomeNews, shown
from edge_agent.daemon.status import Status
from edge_agent.recent import poster
from edge_agent.recent.queue import AnsweredPicture, RecentQueue
from edge_agent.store import Store
from edge_agent.updates.sight import Sight, Sights
from protofleet.errors import FleetError
from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.broker.run import running_broker
from protofleet.mqtt.link.events import Arrival
from protofleet.settings.home import DeviceHome
from tests.edge_agent.fakes import TOPICS, FakeLink, config, log, outbound_to
from tests.edge_agent.recent.test_poster import jpeg
from tests.linking import connect, link_to
from tests.serving import coordinator

STATUS = Status("a", "f", "mqtt://x", 1, samples=3, bundle="ab" * 32, refusal="the disk is full")


class Home:
    """A device whose clock and link are the test's."""

    def __init__(self, folder, agent="a", source="", **settings):
        self.link, self.store, self.now, self.pressed = FakeLink(), Store(folder), 0.0, []
        words, self.lines = log()
        section = replace(config(folder, agent), homeassistant=DeviceHome(**settings))
        section = replace(section, data=DataSection(str(source)))
        outbound = outbound_to(self.link, folder)
        outbound.config = section
        buttons = {"contribute": self._contribute}
        self.news = HomeNews(section, outbound, self.store, words, lambda: self.now, buttons)

    def _contribute(self):
        self.pressed.append(self.now)
        return "done"

    def look(self, status=STATUS, later=0.0):
        """What is said by a look."""
        self.now += later
        before = len(self.link.published)
        self.news.look(status, may_send=True)
        return {topic: payload for topic, payload, _ in self.link.published[before:]}


@pytest.fixture
def home(tmp_path):
    made = []

    def make(**settings):
        for one in made:
            one.store.close()
        made.append(Home(tmp_path, **settings))
        return made[-1]

    yield make
    made[-1].store.close()


def configs(said):
    return {
        tuple(topic.split("/")[1:4]): json.loads(payload) if payload else None
        for topic, payload in said.items()
        if topic.endswith("/config")
    }


def test_it_is_made_known_once_a_connection_and_pictures_only_where_that_was_said(home):
    device = home(discovery=True)
    said = configs(device.look())
    assert said["sensor", "a", "answer"]["unique_id"] == "protofleet_f_a_answer"
    assert said["image", "a", "picture"] is None  # taken back, should it have been there
    assert said["button", "a", "confirm"] is None  # there is no folder to learn photos from
    assert said["button", "a", "contribute"]
    assert all(retain for _, _, retain in device.link.published)
    assert not configs(device.look(later=60))
    device.news.connected()
    assert configs(device.look()) == said
    shown = configs(home(discovery=True, pictures=True).look())
    assert shown["image", "a", "picture"]["image_topic"] == TOPICS.picture("a")


def test_where_it_is_not_wished_nothing_is_said_and_what_was_said_is_taken_back(home):
    assert home().look() == {}
    home(discovery=True, prefix="ha").look()
    device = home()
    said = device.look()
    assert len(said) > 10
    assert set(said.values()) == {b""}
    assert TOPICS.sighting("a") in said
    assert all(topic.startswith(("ha/", "pf/1/f/d/a/")) for topic in said)
    assert device.store.noted(NOTED) == ""
    device.news.connected()
    assert device.look() == {}


def test_another_prefix_leaves_nothing_at_the_first(home):
    home(discovery=True, prefix="ha").look()
    said = configs(home(discovery=True, prefix="home").look())
    assert said["sensor", "a", "answer"]
    device = home(discovery=True, prefix="ha")
    topics = device.look()
    assert topics["home/sensor/a/answer/config"] == b""
    assert topics["ha/sensor/a/answer/config"]


def test_what_a_broker_has_no_room_for_is_said_again(home):
    device = home(discovery=True)
    device.link.full = True
    assert device.look() == {}
    device.link.full = False
    assert configs(device.look())


def test_its_state_is_said_when_it_changed_and_not_too_often(home):
    device = home(discovery=True)
    topic = TOPICS.home("a")
    first = json.loads(device.look()[topic])
    assert (first["bundle"], first["newest"]) == ("abababababab", "abababababab")
    assert first["trouble"] == ["the disk is full"]
    assert topic not in device.look(later=2 * EVERY)
    changed = replace(STATUS, samples=4)
    assert json.loads(device.look(changed, later=1)[topic])["samples"] == 4
    assert topic not in device.look(replace(STATUS, samples=5), later=EVERY / 2)
    assert topic in device.look(replace(STATUS, samples=5), later=EVERY)
    # Its own words make the day's bytes more: that alone is nothing to say.
    assert topic not in device.look(replace(STATUS, samples=5, bytes_today=5000), later=EVERY)


def test_an_answer_that_was_left_is_shown_once(home, tmp_path):
    device = home(discovery=True)
    topic = TOPICS.sighting("a")
    assert topic not in device.look()
    Sights(tmp_path / "fleet.pfb").add(Sight("mug", 0.9, at=5.0))
    assert json.loads(device.look()[topic])["label"] == "mug"
    assert topic not in device.look(later=60)


def test_a_picture_is_shown_where_its_owner_said_so_and_is_taken_back(home, tmp_path):
    bundle, topic = tmp_path / "fleet.pfb", TOPICS.picture("a")
    device = home(discovery=True, pictures=True)
    device.look()
    assert poster.is_wished(bundle)
    poster.show(bundle, jpeg(64, 48))
    shown = device.look()[topic]
    assert shown.startswith(b"\xff\xd8")
    assert topic not in device.look(later=PICTURES)
    poster.show(bundle, jpeg(48, 64))
    assert topic in device.look(later=PICTURES)
    assert home(discovery=True).look()[topic] == b""
    assert not poster.is_wished(bundle)


def test_what_is_confirmed_is_the_answer_that_was_shown(home, tmp_path):
    photos, bundle = tmp_path / "photos", tmp_path / "fleet.pfb"
    (photos / "mug").mkdir(parents=True)
    picture = jpeg(32, 32)
    feature, now = np.zeros(4, np.float32), time.time()
    kept = AnsweredPicture(picture, "mug", 0.6, False, now, "door", "l", feature)
    RecentQueue(bundle).add(kept)
    device = home(discovery=True, source=photos)
    assert configs(device.look())["button", "a", "confirm"]

    def press(sight):
        Sights(bundle).add(sight)
        device.look()
        device.news.press("confirm", b"PRESS", retained=False)
        device.now += REFILL
        return device.lines.getvalue().splitlines()[-1]

    device.news.press("confirm", b"PRESS", retained=False)
    assert "there is no answer" in device.lines.getvalue()
    assert "not kept" in press(Sight("mug", 0.99, at=1.0))
    assert "there is no answer" in press(Sight("mug", 0.2, unknown=True, at=2.0, key=kept.key))
    assert not list(photos.rglob("*.jpg"))
    assert "mug: one more sample" in press(Sight("mug", 0.6, at=5.0, key=kept.key))
    assert [file.read_bytes() for file in photos.glob("mug/*.jpg")] == [picture]
    assert "named already" in press(Sight("mug", 0.6, at=5.0, key=kept.key))


def test_a_press_is_taken_if_it_is_one(home):
    device = home(discovery=True)
    assert device.news.filters == TOPICS.for_home("a")
    for button, payload, retained in (
        ("contribute", b"PRESS", True),
        ("contribute", b"", False),
        ("contribute", b"PRESS" * 1000, False),
        ("reboot", b"PRESS", False),
    ):
        device.news.press(button, payload, retained=retained)
    assert not device.pressed
    device.news.press("contribute", b"PRESS", retained=False)
    assert device.pressed == [0.0]
    assert "pressed in Home Assistant: done" in device.lines.getvalue()
    assert device.lines.getvalue().count("means nothing here") == 3  # one line a kind


def test_a_button_that_sticks_costs_little(home):
    device = home(discovery=True)
    for _ in range(1000):
        device.news.press("contribute", b"PRESS", retained=False)
    assert len(device.pressed) == BURST
    device.now += REFILL
    device.news.press("contribute", b"PRESS", retained=False)
    assert len(device.pressed) == BURST + 1
    assert device.lines.getvalue().count("too many") == 1


def test_without_discovery_no_button_does_anything(home):
    device = home()
    assert device.news.filters == []
    device.news.press("contribute", b"PRESS", retained=False)
    assert not device.pressed


def test_a_name_that_home_assistant_does_not_take_is_one_line(home):
    device = home(agent="a.b", discovery=True)
    assert device.look() == {}
    assert device.lines.getvalue().count("Home Assistant takes no device of the name 'a.b'") == 1


def test_where_a_fleet_has_a_budget_nobody_is_told_how_many_samples_there_are():
    assert (shown(STATUS)["samples"], shown(STATUS)["classes"]) == (3, 0)
    withheld = shown(STATUS, counted=False)
    assert (withheld["samples"], withheld["classes"]) == (None, None)


def test_a_real_device_is_discovered_becomes_unavailable_and_is_forgotten(tmp_path):
    """By processes, at a real broker: what a home hears from the first birth to the last word."""
    if mosquitto.find() is None:
        pytest.skip("mosquitto is not installed")
    rows = np.random.default_rng(0).normal(size=(20, 64)).astype(np.float32)
    np.savez(tmp_path / "samples.npz", x=rows, y=np.arange(20) % 2, classes=["a", "b"])
    with ExitStack() as stack:
        broker = stack.enter_context(running_broker(tmp_path / "broker", prefer="mosquitto"))
        url = str(broker.address)
        text = f'[agent]\nid = "a"\n[broker]\nurl = "{url}"\n[fleet]\nname = "f"\n'
        text += "[homeassistant]\ndiscovery = true\n[limits]\nmin_free_mb = 0\n"
        (tmp_path / "agent.toml").write_text(text + '[data]\nsource = "samples.npz"\n')
        words = ("run", "--config", str(tmp_path / "agent.toml"))
        device = subprocess.Popen(
            [sys.executable, "-m", "edge_agent", *words], stderr=subprocess.DEVNULL
        )
        stack.callback(device.kill)
        link = link_to(broker.address, "homeassistant")
        stack.callback(link.stop, patience=0.0)
        link.subscribe([("homeassistant/#", 1), (TOPICS.state("a"), 1), (TOPICS.home("a"), 1)])
        connect(link)
        stack.enter_context(coordinator(url, tmp_path / "headquarters"))
        retained = {}

        def hears(enough):
            end = time.monotonic() + 120
            while not enough():
                assert time.monotonic() < end, sorted(retained)
                for event in link.poll(1.0):
                    if isinstance(event, Arrival):
                        retained[event.topic] = event.payload
                        link.ack(event)

        answer = "homeassistant/sensor/a/answer/config"
        hears(lambda: {answer, TOPICS.home("a"), TOPICS.state("a")} <= retained.keys())
        known = configs({t: p for t, p in retained.items() if p})
        (presence,) = known["sensor", "a", "answer"]["availability"]
        assert presence["topic"] == TOPICS.state("a")
        template = jinja2.Template(presence["value_template"])
        assert _available(template, retained) == "online"
        place = tmp_path / "headquarters" / "coordinator-data"
        hears(lambda: is_known(place, "a"))  # a last will alone would tell it of nobody
        device.kill()  # its power went
        device.wait()
        hears(lambda: _available(template, retained) == "offline")

        def is_forgotten():
            with suppress(FleetError):  # on a busy machine it is done, and answered too late
                ask(place, "forget", agent="a")
            return not is_known(place, "a")

        hears(is_forgotten)
        hears(lambda: not any(retained[t] for t in retained if t.startswith("homeassistant/")))
        assert len(retained) > len(known)


def is_known(place, agent):
    """Whether the coordinator has heard of this device."""
    return any(one["agent"] == agent for one in ask(place, "agents")["agents"])


def _available(template, retained):
    return template.render(value=retained[TOPICS.state("a")].decode("latin-1"))
