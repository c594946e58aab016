"""Whoever can write the broker's topics, against a device that joined a fleet: nothing reaches it,
and each attempt is one line in the log.
"""

import io

import pytest

from coordinator.members.office import Office
from protofleet.errors import TrustError
from protofleet.member.sealed_link import SealedLink, Voice, sealed_link
from protofleet.mqtt.address import Address
from protofleet.mqtt.link.events import Arrival, Connected, LinkSettings, Publication, Will
from protofleet.mqtt.topics import Topics
from protofleet.trust import keys, sealing
from protofleet.trust.sealing import Signer
from protofleet.trust.sequence import CLASSIFIER, DAEMON, WILL, Sequence
from protofleet.util.logs import Log
from tests.membership import joined

TOPICS = Topics("orchard")
MESSAGE = b"\xa1\x61\x74\x63ack"
DIGEST = "ab" * 32


class Wire:
    """A link that is only lists."""

    def __init__(self):
        self.events, self.published, self.filters, self.acked, self.farewell = [], [], [], [], []

    def poll(self, timeout):
        events, self.events = self.events, []
        return events

    def publish(self, topic, payload, **how):
        self.published.append((topic, payload))

    def subscribe(self, filters):
        self.filters.append(dict(filters))

    def ack(self, *arrivals):
        self.acked += arrivals

    def stop(self, farewell, patience):
        self.farewell = farewell


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    office = Office(tmp_path_factory.mktemp("office"), "orchard", lambda: 1_800_000_000.0)
    yield office
    office.close()


@pytest.fixture
def member(office, tmp_path):
    member = joined(office, "camera-07", tmp_path / "identity")
    yield member
    office.revoke("camera-07")


@pytest.fixture
def fleet(office, tmp_path):
    return Signer(office.key, Sequence(tmp_path / "fleet"))


class Device:
    def __init__(self, member):
        self.wire, self.log = Wire(), io.StringIO()
        voice = None if member is None else Voice(member, DAEMON)
        self.link = SealedLink(self.wire, voice, Log(self.log))

    def hears(self, *words):
        self.wire.events = [Arrival(topic, payload, 1, False, None) for topic, payload in words]
        return [event.payload for event in self.link.poll(0.0)]

    @property
    def lines(self):
        return self.log.getvalue().count("nobody stands for it")


@pytest.fixture
def device(member):
    device = Device(member)
    yield device
    device.link.stop()


def test_the_fleet_is_heard_and_nobody_else(device, fleet, tmp_path):
    stranger = Signer(keys.new(), Sequence(tmp_path / "stranger"))
    train = fleet.seal(TOPICS.shared_state, MESSAGE)
    assert device.hears((TOPICS.shared_state, train)) == [MESSAGE]
    attempts = [
        (TOPICS.coordinator_state, MESSAGE),  # a false coordinator
        (TOPICS.round, stranger.seal(TOPICS.round, MESSAGE)),
        (TOPICS.round, train),  # what was said elsewhere
        (TOPICS.proto("stable"), MESSAGE),
        (TOPICS.bundle("stable"), MESSAGE),  # a bundle of its own
        (TOPICS.receipt("camera-07"), MESSAGE),  # an upload is thrown away by such a word
        (TOPICS.own_state("camera-07"), stranger.seal(TOPICS.own_state("camera-07"), MESSAGE)),
        (TOPICS.keys, MESSAGE),
        (TOPICS.round, b"\xd2\x84"),
    ]
    assert device.hears(*attempts) == []
    assert device.lines == len(attempts)
    assert len(device.wire.acked) == len(attempts)  # what is not taken is not left at the broker
    assert device.hears((TOPICS.bundle("stable"), b"")) == []  # nor is what is taken back


def test_an_old_word_is_old_in_the_next_life_too(device, fleet, member):
    old, new = (fleet.seal(TOPICS.round, MESSAGE) for _ in range(2))
    assert len(device.hears((TOPICS.round, old), (TOPICS.round, new))) == 2
    assert device.hears((TOPICS.round, old)) == []
    device.link.stop()
    again = Device(member)
    assert again.hears((TOPICS.round, old)) == []
    assert again.hears((TOPICS.round, new)) == [MESSAGE]  # retained, it comes with each start
    again.link.stop()
    assert "said before" in again.log.getvalue()


def test_a_will_of_the_coordinator_s_is_heard_once(device, office, tmp_path):
    will = Signer(office.key, Sequence(tmp_path / "will", WILL))
    data = will.seal(TOPICS.coordinator_state, MESSAGE)
    assert len(device.hears((TOPICS.coordinator_state, data))) == 1
    assert device.hears((TOPICS.coordinator_state, data)) == []


def test_what_it_says_is_signed_and_chunks_are_bound_by_their_digest(device, member):
    link, topics = device.link, TOPICS
    link.subscribe(topics.for_device("camera-07"))
    assert {topics.keys, topics.certificate("camera-07")} <= set(device.wire.filters[0])
    link.publish(topics.upload("camera-07", 3), MESSAGE)
    link.publish(topics.upload_chunk("camera-07", DIGEST, 0), b"chunk")
    link.publish(topics.renewal("camera-07"), b"request")
    link.stop([Publication(topics.state("camera-07"), MESSAGE)])
    (topic, sealed), *others = device.wire.published
    key = keys.read(member.key).public_key()
    sealing.check(sealing.taken_apart(sealed), key, topic)
    assert [payload for _, payload in others] == [b"chunk", b"request"]
    (farewell,) = device.wire.farewell
    sealing.check(sealing.taken_apart(farewell.payload), key, farewell.topic)
    chunk = (topics.own_chunk("camera-07", DIGEST, 0), b"chunk")
    assert device.hears(chunk) == [b"chunk"]


def test_the_fleet_s_keys_follow_the_authority_and_never_go_back(device, fleet, office, tmp_path):
    device.link.subscribe(TOPICS.for_device("camera-07"))
    first, word = office.signed_ring, fleet.seal(TOPICS.round, MESSAGE)
    office.rotate()
    device.hears((TOPICS.keys, office.signed_ring))
    assert device.hears((TOPICS.round, word)) == [MESSAGE]  # the overlap
    office.retire()
    device.hears((TOPICS.keys, office.signed_ring))
    assert len(device.wire.filters) == 3  # all is asked for again with each
    new = Signer(office.key, Sequence(tmp_path / "new"))
    assert device.hears((TOPICS.round, new.seal(TOPICS.round, MESSAGE))) == [MESSAGE]
    before = device.lines
    assert device.hears((TOPICS.keys, first), (TOPICS.round, fleet.seal(TOPICS.round, b"x"))) == []
    assert device.lines == before + 2
    assert device.link.voice.member.ring.read_bytes() == office.signed_ring


def test_who_joined_no_fleet_takes_signatures_off(fleet):
    device = Device(None)
    train = fleet.seal(TOPICS.shared_state, MESSAGE)
    assert device.hears((TOPICS.shared_state, train), (TOPICS.round, MESSAGE)) == [MESSAGE] * 2
    device.link.publish(TOPICS.state("x"), MESSAGE)
    assert device.wire.published == [(TOPICS.state("x"), MESSAGE)]
    device.wire.events = [Connected(False, "5")]
    assert device.link.poll(0.0) == [Connected(False, "5")]


def test_each_connection_has_a_will_of_its_own_and_each_process_its_lane(member):
    settings = LinkSettings(will=Will(TOPICS.state("camera-07"), MESSAGE))
    where = Address.parse("mqtt://127.0.0.1")
    link = sealed_link(where, "camera-07", settings, (member, DAEMON), Log(io.StringIO()), None)
    make = link._link._parts.settings.link.will
    one, two = (sealing.taken_apart(make().payload) for _ in range(2))
    assert (one.lane, two.number - one.number) == (WILL, 1)
    with pytest.raises(TrustError, match="in use by another process"):
        Voice(member, DAEMON)
    Voice(member, CLASSIFIER).close()
    link.voice.close()
    (member.folder / "heard-0.json").write_text("[")
    with pytest.raises(TrustError, match="is damaged"):
        Voice(member, DAEMON)
