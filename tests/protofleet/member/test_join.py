"""Joining over a broker that everybody may write to: by what is signed alone."""

import io
import threading
import time
from contextlib import contextmanager

import pytest

from coordinator.allowance import Allowance
from coordinator.members.office import Office, Reach
from coordinator.service.doorkeeper import Doorkeeper
from protofleet.errors import LinkError, UsageError
from protofleet.member import membership
from protofleet.member.join import join
from protofleet.mqtt.broker.run import running_broker
from protofleet.mqtt.link.events import Arrival
from protofleet.mqtt.topics import Topics
from protofleet.trust import certificates, tokens
from protofleet.trust.joining import Declined
from protofleet.util.logs import Log
from tests.linking import connect, link_to

TOPICS = Topics("orchard")


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with running_broker(tmp_path_factory.mktemp("broker"), prefer="embedded") as running:
        yield running


@contextmanager
def answering(broker, office):
    """A coordinator's door, and somebody who answers everything first."""
    log, stop = Log(io.StringIO()), threading.Event()
    door = Doorkeeper(office, TOPICS, log, Allowance(), time.monotonic)
    link = link_to(broker.address, "door")
    link.subscribe([(f"{TOPICS.prefix}/j/+/ask", 1)])
    connect(link)

    def serve():
        while not stop.is_set():
            for event in link.poll(0.05):
                if isinstance(event, Arrival):
                    link.ack(event)
                    topic = TOPICS.parse(event.topic)
                    link.publish(TOPICS.answer(topic.rest[0]), b"\xd2\x84 come in")
                    for said in door.take(topic, event.payload):
                        link.publish(said.topic, said.payload)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        link.stop(patience=0.0)


@pytest.fixture
def office(tmp_path):
    office = Office(tmp_path / "coordinator", "orchard", time.time)
    yield office
    office.close()


def invited(office, broker, name="camera-07"):
    url = str(broker.address)
    return tokens.of_text(office.invite(name, 0, 600.0, Reach(url, url)))


def test_a_device_joins_once_and_hears_nobody_but_its_authority(broker, office, tmp_path):
    token, words = invited(office, broker), []
    with answering(broker, office):
        member = join(token, tmp_path / "a", anew=False, patience=20.0, tell=words.append)
        with pytest.raises(Declined, match="used already"):
            join(token, tmp_path / "b", anew=False, patience=20.0, tell=words.append)
    assert membership.of_folder(tmp_path / "a") == member
    assert membership.of_folder(tmp_path / "b") is None
    assert certificates.common_name(certificates.of_pem(member.certificate).subject) == "camera-07"
    assert member.key.stat().st_mode & 0o077 == 0
    assert "nobody stands for" in words[0]
    with pytest.raises(UsageError, match="--force joins anew"):
        join(token, tmp_path / "a", anew=False, patience=1.0, tell=words.append)


def test_where_nobody_answers_it_says_so(broker, office, tmp_path):
    with pytest.raises(LinkError, match="no coordinator answered"):
        join(invited(office, broker), tmp_path / "a", anew=False, patience=1.0, tell=print)
    # The key stays: the next attempt asks with the same, and is answered the same.
    assert (tmp_path / "a/identity/device.key").exists()
