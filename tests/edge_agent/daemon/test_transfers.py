"""Large payloads of a device: asked for, put together, and sent a window at a time."""

import threading

import pytest

from edge_agent.daemon.transfers import Transfers
from edge_agent.protocol.actions import SendChunks
from protofleet import wire
from protofleet.errors import BlobError
from protofleet.mqtt.blobs.descriptor import BlobDescriptor, slip_message
from protofleet.mqtt.blobs.sender import OutgoingBlob
from protofleet.mqtt.link.events import Ticket
from protofleet.mqtt.topics import TopicParts, Topics

TOPICS = Topics("f")
UPLOAD = wire.Envelope(t="upload", fleet="f", run="r", epoch=1, agent="a", round=1)
GLOBAL = wire.Envelope(t="global", fleet="f", run="r", epoch=1, round=4, base="0" * 64)
PAYLOAD = bytes(range(256)) * 40


class Broker:
    """Takes what is published; tickets are done when the test says so."""

    def __init__(self):
        self.said, self.tickets = [], []

    def publish(self, topic, payload, *, qos=1, tell=False):
        self.said.append((topic, payload))
        self.tickets.append(Ticket(threading.Condition()))
        return self.tickets[-1]

    def done(self):
        for ticket in self.tickets:
            if not ticket.done:
                ticket.settle(None)


@pytest.fixture
def stage(tmp_path):
    broker, now = Broker(), [0.0]
    transfers = Transfers(TOPICS, "a", tmp_path, broker, lambda: now[0], 1 << 20)
    transfers.packet = 2048
    return transfers, broker, now


def message(size=9000):
    return wire.enclose(UPLOAD, bytes(size))


def test_what_fits_goes_as_it_is(stage):
    transfers, _, _ = stage
    assert transfers.outgoing("r", 1, message(500)) == message(500)
    assert transfers.digest("r", 1) == ""


def test_a_large_upload_goes_as_a_slip_its_chunks_as_they_are_asked_for_and_the_slip_again(stage):
    transfers, broker, _ = stage
    slip = transfers.outgoing("r", 1, message())
    body = wire.decode(slip).body
    assert body["of"] == "upload"
    assert transfers.digest("r", 1) == body["digest"]
    transfers.push()
    assert broker.said == []
    chunks = BlobDescriptor.from_body(body).chunks
    transfers.send_chunks(SendChunks("r", 1, body["digest"], ((0, 10**6),)))
    for _ in range(chunks // 4):
        transfers.push()
        assert sum(not ticket.done for ticket in broker.tickets) <= 4
        assert transfers.outgoing("r", 1, message()) is None  # its chunks still go
        broker.done()
    transfers.push()  # the last ones
    broker.done()
    transfers.push()
    assert [topic for topic, _ in broker.said[:-1]] == [
        TOPICS.upload_chunk("a", body["digest"], i) for i in range(chunks)
    ]
    assert b"".join(chunk for _, chunk in broker.said[:-1]) == message()
    assert broker.said[-1] == (TOPICS.upload("a", 1), slip)
    transfers.settled("r", 1)
    assert transfers.digest("r", 1) == ""


def test_chunks_of_something_else_are_not_sent(stage):
    transfers, broker, _ = stage
    transfers.outgoing("r", 1, message())
    transfers.send_chunks(SendChunks("r", 1, "f" * 64, ((0, 3),)))
    transfers.send_chunks(SendChunks("r", 2, "f" * 64, ((0, 3),)))
    transfers.push()
    assert broker.said == []


def test_a_large_state_is_put_together_in_any_order_and_what_is_missing_is_asked_for(stage):
    transfers, broker, now = stage
    parcel = OutgoingBlob(PAYLOAD, 1000)
    slip = wire.decode(slip_message(GLOBAL, parcel.slip))
    place = TopicParts(None, "shared_state")
    assert transfers.slip(place, slip) is None
    transfers.push()
    assert broker.said == []  # it is being sent to all: wait a little
    for index in (10, 3, 3, 0):
        assert transfers.chunk(parcel.slip.digest, index, parcel.chunk(index)) is None
    now[0] = 4.0
    transfers.push()
    topic, asked = broker.said[-1]
    assert topic == TOPICS.chunk_request("a")
    assert wire.decode(asked).body == {"digest": parcel.slip.digest, "missing": [[1, 2], [4, 9]]}
    transfers.push()
    assert len(broker.said) == 1  # not again at once
    found = [
        transfers.chunk(parcel.slip.digest, index, parcel.chunk(index))
        for index in (9, 8, 7, 6, 5, 4, 2, 1)
    ]
    assert found[:-1] == [None] * 7
    assert (found[-1].place, found[-1].payload) == (place, PAYLOAD)
    assert transfers.due is None


def test_a_devices_own_part_is_asked_for_at_once_and_a_newer_one_replaces_it(stage):
    transfers, broker, _ = stage
    first, second = OutgoingBlob(PAYLOAD, 1000), OutgoingBlob(PAYLOAD[::-1], 1000)
    for parcel in (first, second):
        assert (
            transfers.slip(
                TopicParts("a", "own_state"), wire.decode(slip_message(GLOBAL, parcel.slip))
            )
            is None
        )
    transfers.push()
    assert wire.decode(broker.said[-1][1]).body["digest"] == second.slip.digest
    assert transfers.chunk(first.slip.digest, 0, first.chunk(0)) is None
    found = [
        transfers.chunk(second.slip.digest, index, second.chunk(index))
        for index in range(second.slip.chunks)
    ]
    assert found[-1].payload == PAYLOAD[::-1]


def test_a_fetch_goes_on_where_an_earlier_life_was(stage, tmp_path):
    transfers, broker, _ = stage
    parcel = OutgoingBlob(PAYLOAD, 1000)
    slip = wire.decode(slip_message(GLOBAL, parcel.slip))
    transfers.slip(TopicParts("a", "own_state"), slip)
    for index in range(9):
        transfers.chunk(parcel.slip.digest, index, parcel.chunk(index))
    again = Transfers(TOPICS, "a", tmp_path, broker, lambda: 0.0, 1 << 20)
    again.slip(TopicParts("a", "own_state"), slip)
    again.push()
    assert wire.decode(broker.said[-1][1]).body["missing"] == [[9, 10]]


def test_a_state_beyond_what_the_device_takes_is_refused(stage):
    transfers, _, _ = stage
    slip = wire.decode(slip_message(GLOBAL, BlobDescriptor("a" * 64, 1 << 21, 1000)))
    with pytest.raises(BlobError, match="at most 1048576 are taken in"):
        transfers.slip(TopicParts(None, "shared_state"), slip)
