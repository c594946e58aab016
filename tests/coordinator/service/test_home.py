"""The fleet in Home Assistant: made known with each connection, said when it changed, and what of a
device was retained is taken back when it goes.
"""

import json

from coordinator.service.home import EVERY, FleetHome, shown
from protofleet.errors import LinkBusy
from protofleet.mqtt.topics import Topics
from protofleet.settings.home import HomeSection

T = Topics("f")
STATUS = {"agents_online": 3, "agents_gone": 1, "agents_known": 4, "accuracy": {"head": 0.5}}


class Fleet:
    """A fleet whose clock and link are the test's."""

    def __init__(self, discovery=True):
        self.said, self.now, self.asked, self.full = [], 0.0, 0, False
        self.home = FleetHome(HomeSection(discovery), T, self._say, lambda: self.now)
        self.home.connected()

    def _say(self, publication):
        if self.full:
            raise LinkBusy("full")
        self.said.append(publication)

    def look(self, later=0.0, **changes):
        self.now += later
        self.said.clear()

        def status():
            self.asked += 1
            return {**STATUS, **changes}

        self.home.look(status)
        return {p.topic: p.payload for p in self.said}


def test_it_is_made_known_and_said_when_it_changed():
    fleet = Fleet()
    said = fleet.look()
    assert "homeassistant/sensor/coordinator/accuracy/config" in said
    assert json.loads(said[T.fleet_home])["online"] == 3
    assert fleet.look(later=EVERY) == {}
    asked = fleet.asked
    assert fleet.look(later=EVERY / 2, agents_online=2) == {}
    assert fleet.asked == asked  # a status of a thousand devices is not free
    assert json.loads(fleet.look(later=EVERY, agents_online=2)[T.fleet_home])["online"] == 2
    fleet.home.connected()
    assert len(fleet.look(later=EVERY)) == len(said)


def test_what_is_retained_of_a_device_that_goes_is_taken_back_whether_or_not_it_is_discovered():
    for discovery in (True, False):
        fleet = Fleet(discovery)
        fleet.look()
        fleet.home.forget("a")
        said = fleet.look()
        assert said["homeassistant/sensor/a/answer/config"] == b""
        assert said[T.picture("a")] == b""
        assert fleet.look() == {}
        fleet.home.turned_away({"b"})
        fleet.home.turned_away({"b"})
        assert fleet.look()[T.sighting("b")] == b""
        fleet.home.turned_away({"b"})
        assert fleet.look() == {}


def test_what_the_link_has_no_room_for_waits():
    fleet = Fleet()
    fleet.full = True
    assert fleet.look() == {}
    fleet.full = False
    assert fleet.look(later=EVERY)


def test_the_surest_of_its_accuracies_is_shown_and_alerts_are_sentences():
    assert shown(STATUS)["accuracy"] == 0.5
    vitals = {"held_out": {"accuracy": 0.9123456}}
    assert shown({**STATUS, "vitals": vitals})["accuracy"] == 0.912
    assert shown({**STATUS, "accuracy": {}})["accuracy"] is None
    alerts = [{"sentence": "camera-03 is silent.", "kind": "silent"}] * 99
    assert shown({**STATUS, "alerts": alerts})["alerts"] == ["camera-03 is silent."] * 20
