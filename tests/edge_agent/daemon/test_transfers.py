"""Large uploads of a device: announced, sent a window at a time as asked for, announced again."""

import threading

import pytest

from edge_agent.daemon.transfers import Transfers
from edge_agent.protocol.actions import SendChunks
from protofleet import wire
from protofleet.mqtt.blobs.descriptor import BlobDescriptor, descriptor_message
from protofleet.mqtt.blobs.sender import OutgoingBlob
from protofleet.mqtt.link.events import Ticket
from protofleet.mqtt.topics import TopicParts, Topics

TOPICS = Topics("f")
UPLOAD = wire.Envelope(t="upload", fleet="f", run="r", epoch=1, agent="a", round=1)
STATE = wire.Envelope(t="global", fleet="f", run="r", epoch=1, round=4, base="0" * 64)


class Publisher:
    """Takes what is published; tickets are done when the test says so."""

    def __init__(self):
        self.published, self.tickets = [], []

    def publish(self, topic, payload, *, qos=1, tell=False):
        self.published.append((topic, payload))
        self.tickets.append(Ticket(threading.Condition()))
        return self.tickets[-1]

    def done(self):
        for ticket in self.tickets:
            if not ticket.done:
                ticket.settle(None)


@pytest.fixture
def transfers(tmp_path):
    publisher = Publisher()
    transfers = Transfers(TOPICS, "a", tmp_path, publisher, lambda: 0.0, 1 << 20)
    transfers.packet = 2048
    return transfers, publisher


def message(size=9000):
    return wire.enclose(UPLOAD, bytes(size))


def test_what_fits_goes_as_it_is(transfers):
    transfers, _ = transfers
    assert transfers.outgoing("r", 1, message(500)) == message(500)
    assert transfers.digest("r", 1) == ""


def test_a_large_upload_is_announced_its_chunks_leave_as_asked_for_and_it_is_announced_again(
    transfers,
):
    transfers, publisher = transfers
    descriptor = transfers.outgoing("r", 1, message())
    body = wire.decode(descriptor).body
    assert body["of"] == "upload"
    assert transfers.digest("r", 1) == body["digest"]
    transfers.push()
    assert publisher.published == []
    chunks = BlobDescriptor.from_body(body).chunks
    transfers.send_chunks(SendChunks("r", 1, body["digest"], ((0, 10**6),)))
    for _ in range(chunks // 4):
        transfers.push()
        assert sum(not ticket.done for ticket in publisher.tickets) <= 4
        assert transfers.outgoing("r", 1, message()) is None  # its chunks still go
        publisher.done()
    transfers.push()  # the last ones
    publisher.done()
    transfers.push()
    assert [topic for topic, _ in publisher.published[:-1]] == [
        TOPICS.upload_chunk("a", body["digest"], i) for i in range(chunks)
    ]
    assert b"".join(chunk for _, chunk in publisher.published[:-1]) == message()
    assert publisher.published[-1] == (TOPICS.upload("a", 1), descriptor)
    transfers.settled("r", 1)
    assert transfers.digest("r", 1) == ""


def test_chunks_of_something_else_are_not_sent(transfers):
    transfers, publisher = transfers
    transfers.outgoing("r", 1, message())
    transfers.send_chunks(SendChunks("r", 1, "f" * 64, ((0, 3),)))
    transfers.send_chunks(SendChunks("r", 2, "f" * 64, ((0, 3),)))
    transfers.push()
    assert publisher.published == []


def test_chunks_and_requests_leave_by_the_same_push(transfers):
    transfers, publisher = transfers
    state = OutgoingBlob(bytes(range(256)) * 40, 1000)
    announced = wire.decode(descriptor_message(STATE, state.descriptor))
    assert transfers.receiver.announce(TopicParts("a", "own_state"), announced) is None
    descriptor = wire.decode(transfers.outgoing("r", 1, message())).body
    transfers.send_chunks(SendChunks("r", 1, descriptor["digest"], ((0, 0),)))
    transfers.push()
    assert [topic for topic, _ in publisher.published] == [
        TOPICS.upload_chunk("a", descriptor["digest"], 0),
        TOPICS.chunk_request("a"),
    ]
