"""What is too large for a packet, on its way out of the coordinator and into it."""

import os
from threading import Condition

import pytest

from coordinator.service.blobs import BlobServer, is_descriptor
from protofleet import wire
from protofleet.errors import LinkBusy
from protofleet.mqtt.blobs.descriptor import BlobDescriptor, BlobLimits, descriptor_message
from protofleet.mqtt.blobs.receiver import Blob
from protofleet.mqtt.blobs.sender import OutgoingBlob
from protofleet.mqtt.link.events import Publication, Ticket
from protofleet.mqtt.topics import Topics

TOPICS = Topics("orchard")
LIMITS = BlobLimits(packet=2048, window=3)


class FakeLink:
    """Takes publications, as many as it has room for."""

    def __init__(self):
        self.published, self.room = [], 10_000

    def publish(self, topic, payload, *, qos=1, retain=False, tell=False):
        if len(self.published) >= self.room:
            raise LinkBusy("full")
        self.published.append(Publication(topic, payload, qos, retain))
        ticket = Ticket(Condition())
        ticket.settle(None)
        return ticket


@pytest.fixture
def link():
    return FakeLink()


@pytest.fixture
def server(tmp_path, link):
    def missing(agent, round, digest, ranges):
        return Publication(TOPICS.receipt(agent), f"{digest} of round {round}: {ranges}".encode())

    shelf = {SHELVED.descriptor.digest: b"z" * 3000}.get
    return BlobServer(link, TOPICS, LIMITS, tmp_path / "spool", missing, lambda: 0.0, shelf)


SHELVED = OutgoingBlob(b"z" * 3000, LIMITS.chunk)


def state(size):
    return wire.enclose(wire.Envelope(t="global", fleet="orchard", run="r", epoch=1), bytes(size))


def pumped(server, link):
    """Everything that leaves, window by window."""
    before = -1
    while len(link.published) > before:
        before = len(link.published)
        server.pump()
    return link.published


def request(server, agent, digest, missing):
    envelope = wire.Envelope(t="command", fleet="orchard", agent=agent)
    payload = wire.encode(envelope, {"digest": digest, "missing": missing})
    server.requested(TOPICS.parse(TOPICS.chunk_request(agent)), payload)


def test_a_large_state_for_all_leaves_as_a_descriptor_and_its_chunks_once(server, link):
    payload = state(9000)
    blob = OutgoingBlob(payload, LIMITS.chunk)
    for _ in range(2):  # as after each reconnect
        server.send([Publication(TOPICS.shared_state, payload, retain=True)])
    published = pumped(server, link)
    descriptors = [p for p in published if p.topic == TOPICS.shared_state]
    assert [is_descriptor(p.payload) for p in descriptors] == [True, True]
    assert all(p.retain for p in descriptors)
    assert BlobDescriptor.from_body(wire.decode(descriptors[0].payload).body) == blob.descriptor
    chunks = [p for p in published if p.topic != TOPICS.shared_state]
    assert [(p.topic, p.payload, p.retain) for p in chunks] == [
        (TOPICS.shared_chunk(blob.descriptor.digest, i), blob.chunk(i), False)
        for i in range(blob.descriptor.chunks)
    ]


def test_an_own_part_is_sent_to_nobody_before_it_is_asked_for(server, link):
    payload = state(9000)
    blob = OutgoingBlob(payload, LIMITS.chunk)
    server.send([Publication(TOPICS.own_state("a"), payload, retain=True)])
    assert [p.topic for p in pumped(server, link)] == [TOPICS.own_state("a")]
    request(server, "a", blob.descriptor.digest, [[2, 3]])
    assert [p.topic for p in pumped(server, link)[1:]] == [
        TOPICS.own_chunk("a", blob.descriptor.digest, i) for i in (2, 3)
    ]


def test_a_newer_state_of_a_topic_takes_the_place_of_the_one_before(server, link):
    old, new = state(9000), state(9001)
    for payload in (old, new, state(10)):
        server.send([Publication(TOPICS.own_state("a"), payload)])
        pumped(server, link)
    published = len(link.published)
    for payload in (old, new):
        digest = OutgoingBlob(payload, LIMITS.chunk).descriptor.digest
        request(server, "a", digest, [[0, 0]])
    assert len(pumped(server, link)) == published


def test_what_is_on_the_shelf_is_served_as_well(server, link):
    request(server, "a", SHELVED.descriptor.digest, [[1, 2]])
    assert b"".join(p.payload for p in pumped(server, link)) == b"z" * (3000 - LIMITS.chunk)


@pytest.mark.parametrize(
    ("digest", "missing"),
    [
        ("ab" * 32, [[0, 0]]),
        (SHELVED.descriptor.digest, [[0, 3]]),
        (SHELVED.descriptor.digest, [[1, 0]]),
        (SHELVED.descriptor.digest, "all"),
        (None, None),
    ],
)
def test_requests_that_cannot_be_are_not_answered(server, link, digest, missing):
    request(server, "a", digest, missing)
    server.requested(TOPICS.parse(TOPICS.chunk_request("a")), b"junk")
    assert pumped(server, link) == []


def test_what_the_link_has_no_room_for_leaves_later_and_in_order(server, link):
    link.room = 1
    messages = [Publication(TOPICS.receipt(agent), b"x") for agent in "abc"]
    server.send(messages)
    assert link.published == messages[:1]
    link.room = 10
    server.send([Publication(TOPICS.receipt("d"), b"x")])
    assert [p.topic for p in link.published] == [TOPICS.receipt(agent) for agent in "abcd"]


def test_a_large_upload_is_asked_for_by_a_receipt_and_handed_over_where_it_belongs(server, link):
    envelope = wire.Envelope(t="upload", fleet="orchard", run="r", epoch=1, agent="a", round=7)
    payload = wire.enclose(envelope, os.urandom(3000))
    blob, parts = OutgoingBlob(payload, 1000), TOPICS.parse(TOPICS.upload("a", 7))
    digest = blob.descriptor.digest
    announcement = wire.decode(descriptor_message(envelope, blob.descriptor))
    assert server.announced(parts, announcement) is None

    def arrives(index, agent="a"):
        chunk = TOPICS.parse(TOPICS.upload_chunk(agent, digest, index))
        return server.chunk(chunk, blob.chunk(index))

    assert [arrives(0), arrives(2), arrives(1, agent="b")] == [None] * 3
    assert server.announced(parts, announcement) is None
    assert [p.payload.decode() for p in link.published] == [
        f"{digest} of round 7: [(0, 3)]",
        f"{digest} of round 7: [(1, 1), (3, 3)]",
    ]
    assert arrives(3) is None
    assert arrives(1) == Blob(parts, payload)
    assert arrives(1) is None


def test_only_small_messages_of_the_right_type_are_descriptors():
    envelope = wire.Envelope(t="upload", fleet="orchard", agent="a", round=1)
    assert is_descriptor(descriptor_message(envelope, SHELVED.descriptor))
    assert not is_descriptor(wire.enclose(envelope, bytes(10)))
    assert not is_descriptor(b"\xff" * 1025)  # too long to be looked at


def test_class_means_and_an_upload_of_one_device_are_under_way_together(server, link):
    envelope = wire.Envelope(t="enrol", fleet="orchard", agent="a")
    offer = wire.enclose(envelope, os.urandom(3000))
    body = wire.enclose(wire.Envelope(t="upload", fleet="orchard", agent="a"), os.urandom(3000))
    whole = {}
    for round, payload in ((0, offer), (7, body)):
        blob, parts = OutgoingBlob(payload, 1000), TOPICS.parse(TOPICS.upload("a", round))
        announcement = wire.decode(descriptor_message(wire.unseal(payload)[0], blob.descriptor))
        assert server.announced(parts, announcement) is None
        whole[blob] = Blob(parts, payload)
    for index in range(3):
        for blob in whole:
            parts = TOPICS.parse(TOPICS.upload_chunk("a", blob.descriptor.digest, index))
            assert server.chunk(parts, blob.chunk(index)) is None
    for blob, taken in whole.items():
        parts = TOPICS.parse(TOPICS.upload_chunk("a", blob.descriptor.digest, 3))
        assert server.chunk(parts, blob.chunk(3)) == taken


def test_what_is_asked_for_again_and_again_is_read_off_the_shelf_once(tmp_path, link):
    now, looks = [0.0], []

    def shelf(digest):
        looks.append(digest)
        return b"z" * 3000 if digest == SHELVED.descriptor.digest else None

    server = BlobServer(link, TOPICS, LIMITS, tmp_path, None, lambda: now[0], shelf)
    for _ in range(5):
        request(server, "a", SHELVED.descriptor.digest, [[0, 0]])
        pumped(server, link)
    assert (len(looks), len(link.published)) == (1, 5)
    now[0] = 61.0
    server.sweep()
    request(server, "a", SHELVED.descriptor.digest, [[0, 0]])
    assert len(looks) == 2


def test_a_device_has_only_so_many_requests_and_bytes_at_once(server, link):
    for _ in range(100):
        request(server, "a", SHELVED.descriptor.digest, [[0, 2]])
        pumped(server, link)
    assert len(link.published) == 3 * 60
    assert server.allowance.dropped == {"request": 40}
    request(server, "b", SHELVED.descriptor.digest, [[0, 0]])
    assert len(pumped(server, link)) == 3 * 60 + 1


def test_a_device_announces_only_so_many_large_uploads_and_none_is_remembered_for_good(
    tmp_path, link
):
    now, asked = [0.0], []

    def missing(agent, round, digest, ranges):
        asked.append(agent)
        return Publication(TOPICS.receipt(agent), b"")

    server = BlobServer(link, TOPICS, LIMITS, tmp_path, missing, lambda: now[0])

    def announces(agent, content):
        blob = OutgoingBlob(content, 1000)
        message = descriptor_message(wire.Envelope("upload", "orchard"), blob.descriptor)
        return server.announced(TOPICS.parse(TOPICS.upload(agent, 7)), wire.decode(message))

    for number in range(100):
        announces("a", bytes([number]) * 1500)
    assert (len(asked), server.allowance.dropped) == (60, {"announce": 40})
    for number in range(50):
        announces(f"ghost-{number}", b"x" * 1500)
    assert len(server._receiver._expected) == 51
    now[0] = 700.0
    server.sweep()
    assert (len(server._receiver._expected), list(tmp_path.glob("*.parcel"))) == (0, [])
