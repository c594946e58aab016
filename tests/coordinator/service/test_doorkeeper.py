import io
import time

import pytest

from coordinator.allowance import Allowance
from coordinator.members.office import Office, Reach
from coordinator.service.doorkeeper import Doorkeeper
from protofleet.mqtt.topics import Topics
from protofleet.trust import certificates, joining, keys, tokens
from protofleet.trust.listing import BundleList
from protofleet.util.logs import Log

TOPICS = Topics("orchard")


@pytest.fixture
def office(tmp_path):
    office = Office(tmp_path, "orchard", time.time)
    yield office
    office.close()


@pytest.fixture
def log():
    return io.StringIO()


def keeper(office, log, clock=lambda: 0.0):
    return Doorkeeper(office, TOPICS, Log(log), Allowance(), clock)


def test_a_token_is_answered_and_anything_else_is_one_line(office, log):
    door = keeper(office, log)
    token = tokens.of_text(office.invite("camera-07", 0, 60.0, Reach("mqtt://b", "mqtt://b")))
    topic = TOPICS.ask(token.id)
    asked = joining.ask(token.key, topic, "camera-07", certificates.request(keys.new(), "x"))
    (said,) = door.take(TOPICS.parse(topic), asked)
    assert said.topic == TOPICS.answer(token.id)
    assert joining.read_answer(said.payload, token.authority, said.topic, asked)
    assert door.take(TOPICS.parse(topic), b"nonsense") == []
    assert log.getvalue().count("nobody stands for") == 1


def test_a_flood_at_the_door_is_cut_short(office, log):
    door = keeper(office, log)
    for _ in range(500):
        door.take(TOPICS.parse(TOPICS.ask("0" * 16)), b"nonsense")
    assert log.getvalue().count("\n") == 60


def test_a_new_ring_is_said_to_all(office, log, tmp_path):
    now = [0.0]
    door = keeper(office, log, lambda: now[0])
    assert [said.retain for said in door.greetings()] == [True]
    assert door.look() == []
    command = Office(tmp_path, "orchard", lambda: 1_800_000_000.0)
    command.rotate()
    command.close()
    assert door.look() == []  # not before a second has passed
    now[0] = 2.0
    assert [said.topic for said in door.look()] == [TOPICS.keys]
    assert door.look() == []


def test_a_list_of_bundles_is_said_with_each_change_and_each_hour(office, log, tmp_path):
    now = [0.0]
    door = keeper(office, log, lambda: now[0])
    assert [said.topic for said in door.greetings()] == [TOPICS.keys]
    office.vault.init(tmp_path / "offline")
    lists = []
    for seconds in (2.0, 4.0, 3700.0):
        now[0] = seconds
        lists += door.look()
    assert [said.topic for said in lists] == [TOPICS.listing] * 2
    office.vault.sign(tmp_path / "offline", [])
    now[0] += 2.0
    (said,) = door.look()
    device = BundleList(tmp_path / "device")
    for earlier in (*lists, said):
        device.take(earlier.payload)


def test_a_full_disk_is_one_line_and_whoever_asked_may_ask_again(office, log, monkeypatch):
    now = [0.0]
    door = keeper(office, log, lambda: now[0])
    token = tokens.of_text(office.invite("camera-07", 0, 60.0, Reach("mqtt://b", "mqtt://b")))
    topic = TOPICS.ask(token.id)
    asked = joining.ask(token.key, topic, "camera-07", certificates.request(keys.new(), "x"))
    office.registry._db.execute("PRAGMA query_only=ON")  # as on a disk that takes nothing
    assert door.take(TOPICS.parse(topic), asked) == []
    monkeypatch.setattr(type(office), "reread", lambda self: (_ for _ in ()).throw(OSError(28, "")))
    for now[0] in (2.0, 4.0):
        assert door.look() == []
    assert log.getvalue().count("cannot be looked at") == 1
    monkeypatch.undo()
    office.registry._db.execute("PRAGMA query_only=OFF")
    (said,) = door.take(TOPICS.parse(topic), asked)
    assert joining.read_answer(said.payload, token.authority, said.topic, asked)
    now[0] = 6.0
    door.look()
    assert "cannot be answered" in log.getvalue()
