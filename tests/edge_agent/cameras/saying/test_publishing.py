"""Answers at a broker of the owner's."""

import io
import json
import random

import pytest

from edge_agent.cameras.saying.answers import SceneAnswer
from edge_agent.cameras.saying.outlets import Unsaid, Unwelcome
from edge_agent.cameras.saying.publishing import BrokerSender
from protofleet.errors import SettingError
from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.broker.run import running_broker
from protofleet.mqtt.link.link import Arrival, Link, LinkSettings
from protofleet.util.logs import Log
from tests.edge_agent.fakes import FakeLink
from tests.linking import connect, eventually, link_to, poll_for


def line(region="", label="a"):
    return SceneAnswer("answer", "door", region, 0.0, label).line()


@pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")
@pytest.mark.parametrize("retain", [True, False])
def test_an_answer_is_plain_json_on_a_topic_of_its_camera_and_region(tmp_path, retain):
    with running_broker(tmp_path / "broker", prefer="mosquitto") as broker:
        reader = link_to(broker.address, "reader")
        reader.subscribe([("home/cameras/#", 1)])
        connect(reader)
        link = Link(broker.address, "watch", LinkSettings(), rng=random.Random(1))
        sender = BrokerSender(link, "home/cameras/", retain=retain, log=Log(io.StringIO()))
        eventually(lambda: link.connected)
        sender.send(line())
        sender.send(line("bin", "b"))
        first, second = poll_for(reader, Arrival, 2)
        assert (first.topic, json.loads(first.payload)["label"]) == ("home/cameras/door", "a")
        assert (second.topic, json.loads(second.payload)["label"]) == ("home/cameras/door.bin", "b")
        later = link_to(broker.address, "later")
        later.subscribe([("home/cameras/#", 1), ("end", 1)])
        connect(later)
        link.publish("end", b"")
        kept = []
        while not kept or kept[-1].topic != "end":
            kept += poll_for(later, Arrival)
        assert sum(arrival.retained for arrival in kept) == (2 if retain else 0)
        for each in (reader, later):
            each.stop()
        sender.close()


class OpenLink(FakeLink):
    connected = True


def test_without_a_connection_and_with_a_full_one_it_is_not_now():
    link = OpenLink()
    sender = BrokerSender(link, "t", retain=True, log=Log(io.StringIO()))
    link.connected = False
    with pytest.raises(Unsaid, match="no connection"):
        sender.send(line())
    link.connected, link.full = True, True
    with pytest.raises(Unsaid):
        sender.send(line())
    link.full = False
    sender.send(line())
    assert [topic for topic, _, _ in link.published] == ["t/door"]


def test_what_the_broker_is_slow_to_take_is_not_said_twice(monkeypatch):
    link = OpenLink()
    sender = BrokerSender(link, "t", retain=True, log=Log(io.StringIO()))
    tickets = []
    publish = link.publish

    def slow(*words, **more):
        ticket = publish(*words, **more)
        ticket.done = False
        tickets.append(ticket)
        return ticket

    monkeypatch.setattr(link, "publish", slow)
    monkeypatch.setattr("edge_agent.cameras.saying.publishing.PATIENCE", 0.05)
    for _ in range(2):
        with pytest.raises(Unsaid, match="does not answer"):
            sender.send(line())
    tickets[0].settle("not authorized")
    with pytest.raises(Unwelcome, match="not authorized"):
        sender.send(line())
    assert len(tickets) == 1


@pytest.mark.parametrize("topic", ["", "a/#", "+/b", "/a", "$SYS/a"])
def test_a_topic_that_cannot_be_published_on_is_refused(topic):
    with pytest.raises(SettingError):
        BrokerSender(OpenLink(), topic, retain=True, log=Log(io.StringIO()))
