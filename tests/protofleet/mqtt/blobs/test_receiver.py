"""The receiver of large payloads: whom it asks for what and when, and what it hands over."""

import os
import shutil
from dataclasses import replace
from itertools import pairwise
from threading import Condition

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protofleet import wire
from protofleet.errors import BlobError, LinkBusy
from protofleet.mqtt.blobs.descriptor import BlobDescriptor, descriptor_message
from protofleet.mqtt.blobs.receiver import Blob, BlobReceiver, device_receiver
from protofleet.mqtt.blobs.sender import OutgoingBlob
from protofleet.mqtt.blobs.store import BlobStore
from protofleet.mqtt.link.events import Ticket
from protofleet.mqtt.topics import TopicParts, Topics

TOPICS = Topics("f")
SHARED, OWN = TopicParts(None, "shared_state"), TopicParts("a", "own_state")
STATE = wire.Envelope(t="global", fleet="f", run="r", epoch=1, round=4, base="0" * 64)
PAYLOAD = bytes(range(256)) * 40


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Publisher:
    """Keeps what is published, or has no room for it."""

    def __init__(self):
        self.published, self.busy = [], False

    def publish(self, topic, payload, *, qos=1, tell=False):
        if self.busy:
            raise LinkBusy("full")
        self.published.append((topic, payload))
        return Ticket(Condition())

    def requests(self):
        return [wire.decode(payload).body["missing"] for _, payload in self.published]


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def publisher():
    return Publisher()


@pytest.fixture
def device(tmp_path, clock, publisher):
    """A device's receiver: it asks by a command, again and again."""
    return device_receiver(TOPICS, "a", tmp_path / "spool", publisher, clock, 1 << 20)


@pytest.fixture
def server(tmp_path, clock):
    """A coordinator's: one payload a device; what it asks for is kept."""
    requests = []
    store = BlobStore(tmp_path / "spool", largest=20_000, total=30_000, expiry=60, clock=clock)
    receiver = BlobReceiver(
        store, lambda expected, missing: requests.append((expected.parts.agent, missing)), clock
    )
    return receiver, requests


def announcement(blob, envelope=STATE):
    return wire.decode(descriptor_message(envelope, blob.descriptor))


def chunk_topic(blob, index, agent="a"):
    return TopicParts(agent, "own_chunk", (blob.descriptor.digest, str(index)))


def feed(receiver, blob, indices, owner=None):
    """The chunks, one after the other; what came of the last."""
    blobs = [receiver.chunk(chunk_topic(blob, i), blob.chunk(i), owner) for i in indices]
    assert blobs[:-1] == [None] * (len(blobs) - 1)
    return blobs[-1]


def test_a_state_for_all_is_put_together_in_any_order_and_asked_for_once_its_sending_is_over(
    device, publisher, clock
):
    blob = OutgoingBlob(PAYLOAD, 1000)
    assert device.announce(SHARED, announcement(blob)) is None
    device.ask_due()
    assert publisher.published == []  # it is being sent to all: wait a little
    assert feed(device, blob, (10, 3, 3, 0)) is None
    clock.now = 4.0
    device.ask_due()
    topic, request = publisher.published[-1]
    assert topic == TOPICS.chunk_request("a")
    assert wire.decode(request).body == {
        "digest": blob.descriptor.digest,
        "missing": [[1, 2], [4, 9]],
    }
    assert wire.decode(request).envelope == replace(STATE, t="command", agent="a", base=None)
    device.ask_due()
    assert len(publisher.published) == 1  # not again at once
    assert feed(device, blob, (9, 8, 7, 6, 5, 4, 2, 1)) == Blob(SHARED, PAYLOAD)
    assert device.due is None


LARGE = [TopicParts(None, "bundle", ("stable",)), TopicParts(None, "proto", ("total",))]


@pytest.mark.parametrize("parts", LARGE)
def test_what_may_be_larger_than_a_device_s_memory_is_handed_over_as_a_file(
    parts, tmp_path, clock, publisher
):
    device = device_receiver(TOPICS, "a", tmp_path, publisher, clock, 1 << 20, 5000)
    blob = OutgoingBlob(PAYLOAD, 1000)
    with pytest.raises(BlobError, match="at most 5000 are a message"):
        device.announce(SHARED, announcement(blob))
    assert device.announce(parts, announcement(blob)) is None
    bad = chunk_topic(blob, 0)
    device.chunk(bad, bytes(1000))
    assert feed(device, blob, range(1, 11)) is None  # its hash is wrong: all is missing again
    whole = feed(device, blob, range(11))
    assert (whole.parts, whole.payload, whole.file.read_bytes()) == (parts, b"", PAYLOAD)
    assert device.due is None
    assert list(tmp_path.iterdir()) == [whole.file]  # the caller's, and nothing beside it
    assert device.announce(parts, announcement(blob)) is None  # and it may be fetched again


def test_a_devices_own_part_is_asked_for_at_once_and_a_newer_one_replaces_it(device, publisher):
    first, second = OutgoingBlob(PAYLOAD, 1000), OutgoingBlob(PAYLOAD[::-1], 1000)
    for blob in (first, second):
        assert device.announce(OWN, announcement(blob)) is None
    device.ask_due()
    assert wire.decode(publisher.published[-1][1]).body["digest"] == second.descriptor.digest
    assert feed(device, first, range(11)) is None
    assert feed(device, second, range(11)) == Blob(OWN, PAYLOAD[::-1])


def test_the_states_of_two_kinds_are_under_way_side_by_side(device):
    shared, own = OutgoingBlob(PAYLOAD, 1000), OutgoingBlob(PAYLOAD[::-1], 1000)
    device.announce(SHARED, announcement(shared))
    device.announce(OWN, announcement(own))
    assert feed(device, own, range(11)) == Blob(OWN, PAYLOAD[::-1])
    assert feed(device, shared, range(11)) == Blob(SHARED, PAYLOAD)


def test_who_gets_nothing_asks_at_twice_the_distance_each_time_and_at_once_after_a_cut(
    device, publisher, clock
):
    device.announce(OWN, announcement(OutgoingBlob(PAYLOAD, 1000)))
    asked_at = []
    for _ in range(9):
        clock.now = device.due
        device.ask_due()
        asked_at.append(clock.now)
    waits = [after - before for before, after in pairwise(asked_at)]
    assert waits == [3, 6, 12, 24, 48, 96, 120, 120]
    device.connected()
    assert device.due == clock.now
    device.ask_due()
    assert device.due == clock.now + 3
    assert publisher.requests() == [[[0, 10]]] * 10


def test_a_chunk_that_came_makes_the_next_request_wait(device, publisher, clock):
    blob = OutgoingBlob(PAYLOAD, 1000)
    device.announce(OWN, announcement(blob))
    for index in range(5):
        clock.now += 2.0
        feed(device, blob, [index])
    device.connected()
    device.ask_due()
    assert publisher.requests() == [[[5, 10]]]
    assert device.due == clock.now + 3
    feed(device, blob, [0])  # there already: no sign that the request was heard
    clock.now += 3
    device.ask_due()
    assert len(publisher.published) == 2


def test_a_request_that_finds_no_room_in_the_link_is_still_to_be_made(device, publisher):
    device.announce(OWN, announcement(OutgoingBlob(PAYLOAD, 1000)))
    publisher.busy = True
    device.ask_due()
    assert publisher.requests() == []
    publisher.busy = False
    device.ask_due()
    assert publisher.requests() == [[[0, 10]]]


def test_a_fetch_goes_on_where_an_earlier_life_was(device, tmp_path, clock, publisher):
    blob = OutgoingBlob(PAYLOAD, 1000)
    device.announce(OWN, announcement(blob))
    feed(device, blob, range(9))
    again = device_receiver(TOPICS, "a", tmp_path / "spool", publisher, clock, 1 << 20)
    assert again.announce(OWN, announcement(blob)) is None
    again.ask_due()
    assert publisher.requests() == [[[9, 10]]]
    feed(again, blob, [9])
    last = device_receiver(TOPICS, "a", tmp_path / "spool", publisher, clock, 1 << 20)
    last.announce(OWN, announcement(blob))
    assert feed(last, blob, [10]) == Blob(OWN, PAYLOAD)
    assert list((tmp_path / "spool").iterdir()) == []


def test_what_was_whole_when_the_process_died_is_handed_over_when_it_is_announced(
    tmp_path, device, clock
):
    blob = OutgoingBlob(PAYLOAD, 1000)
    store = BlobStore(tmp_path / "s", largest=1 << 20, total=1 << 21, expiry=60, clock=clock)
    incoming = store.open("b", blob.descriptor)
    for index in range(11):
        incoming.add(index, blob.chunk(index))
    later = BlobStore(tmp_path / "s", largest=1 << 20, total=1 << 21, expiry=60, clock=clock)
    receiver = BlobReceiver(later, lambda expected, missing: None, clock)
    parts = TopicParts("b", "upload", ("3",))
    assert receiver.announce(parts, announcement(blob), "b") == Blob(parts, PAYLOAD)


def test_a_state_beyond_what_is_taken_in_is_refused_and_ends_the_one_before(device):
    blob = OutgoingBlob(PAYLOAD, 1000)
    device.announce(SHARED, announcement(blob))
    message = wire.decode(descriptor_message(STATE, BlobDescriptor("a" * 64, 1 << 21, 1000)))
    with pytest.raises(BlobError, match="at most 1048576 are taken in"):
        device.announce(SHARED, message)
    assert device.due is None
    assert feed(device, blob, range(11)) is None


def test_what_nobody_wants_any_more_is_not_asked_for_nor_handed_over(device, publisher, tmp_path):
    blob = OutgoingBlob(PAYLOAD, 1000)
    device.announce(OWN, announcement(blob))
    device.forget("own_state")
    device.ask_due()
    assert publisher.published == []
    assert feed(device, blob, range(11)) is None
    assert list((tmp_path / "spool").iterdir()) == []


def test_a_wrong_byte_costs_the_whole_payload_and_it_is_asked_for_again(device, publisher, clock):
    blob = OutgoingBlob(PAYLOAD, 1000)
    device.announce(OWN, announcement(blob))
    feed(device, blob, range(10))
    assert device.chunk(chunk_topic(blob, 10), bytes(240)) is None
    clock.now = 3.0
    device.ask_due()
    assert publisher.requests() == [[[0, 10]]]
    assert feed(device, blob, range(11)) == Blob(OWN, PAYLOAD)


def test_a_disk_without_room_is_an_error_of_ours_that_keeps_the_systems_reason(device, tmp_path):
    blob = OutgoingBlob(PAYLOAD, 1000)
    device.announce(OWN, announcement(blob))
    shutil.rmtree(tmp_path / "spool")
    with pytest.raises(BlobError, match="no room on the disk: No such file") as error:
        feed(device, blob, [0])
    assert isinstance(error.value.__cause__, OSError)


def test_each_sender_has_its_own_and_one_at_a_time(server):
    receiver, requests = server
    payloads = {agent: os.urandom(9000) for agent in "ab"}
    blobs = {agent: OutgoingBlob(payload, 1000) for agent, payload in payloads.items()}
    for agent, blob in blobs.items():
        parts = TopicParts(agent, "upload", ("1",))
        assert receiver.announce(parts, announcement(blob), agent) is None
        receiver.ask(agent)
    assert requests == [("a", [(0, 8)]), ("b", [(0, 8)])]
    # A digest is no secret: a stranger's chunks must not get into another's upload.
    assert feed(receiver, blobs["a"], range(9), "b") is None
    newer = OutgoingBlob(os.urandom(9000), 1000)
    receiver.announce(TopicParts("b", "upload", ("2",)), announcement(newer), "b")
    assert feed(receiver, blobs["b"], range(9), "b") is None
    assert feed(receiver, blobs["a"], range(9), "a").payload == payloads["a"]
    assert feed(receiver, newer, range(9), "b").parts.rest == ("2",)


def test_an_announcement_that_comes_again_goes_on_and_another_round_counts(server):
    receiver, requests = server
    blob = OutgoingBlob(os.urandom(9000), 1000)
    receiver.announce(TopicParts("a", "upload", ("1",)), announcement(blob), "a")
    feed(receiver, blob, range(5), "a")
    later = TopicParts("a", "upload", ("2",))
    assert receiver.announce(later, announcement(blob), "a") is None
    receiver.ask("a")
    assert requests == [("a", [(5, 8)])]
    assert feed(receiver, blob, range(5, 9), "a").parts == later


def test_a_sender_that_is_gone_is_swept_and_may_begin_again(server, clock):
    receiver, requests = server
    blob, parts = OutgoingBlob(os.urandom(9000), 1000), TopicParts("a", "upload", ("1",))
    receiver.announce(parts, announcement(blob), "a")
    feed(receiver, blob, range(8), "a")
    clock.now = 61.0
    receiver.sweep()
    assert feed(receiver, blob, [8], "a") is None
    receiver.announce(parts, announcement(blob), "a")
    receiver.ask("a")
    assert requests == [("a", [(0, 8)])]


def test_too_many_at_once_cost_the_one_that_was_quiet_for_longest(server, clock):
    receiver, _ = server
    blobs = [OutgoingBlob(os.urandom(9000), 1000) for _ in range(4)]
    for number, blob in enumerate(blobs):
        clock.now = number
        parts = TopicParts(str(number), "upload", ("1",))
        receiver.announce(parts, announcement(blob), str(number))
    complete = [feed(receiver, blob, range(9), str(n)) for n, blob in enumerate(blobs)]
    assert [blob is not None for blob in complete] == [False, True, True, True]


@settings(max_examples=40)
@given(st.data())
def test_any_loss_order_and_repetition_end_in_the_payload_once(tmp_path_factory, data):
    """Between requests the network drops and doubles what it likes; the tries are bounded."""
    clock, publisher = Clock(), Publisher()
    folder = tmp_path_factory.mktemp("spool")
    receiver = device_receiver(TOPICS, "a", folder, publisher, clock, 1 << 20)
    payload = data.draw(st.binary(min_size=600, max_size=3000))
    blob = OutgoingBlob(payload, 256)
    receiver.announce(OWN, announcement(blob))
    blobs = []
    while receiver.due is not None:
        clock.now = receiver.due
        receiver.ask_due()
        runs = publisher.requests()[-1]
        chunks = [i for first, last in runs for i in range(first, last + 1)]
        lossy = len(publisher.published) < 5
        arriving = data.draw(st.lists(st.sampled_from(chunks))) if lossy else chunks
        blobs += [receiver.chunk(chunk_topic(blob, i), blob.chunk(i)) for i in arriving]
    assert [b for b in blobs if b is not None] == [Blob(OWN, payload)]
    assert len(publisher.published) <= 5
