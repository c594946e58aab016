"""Chunks leave a window at a time, and nothing twice; also through a broker with a packet limit and
over a cut.
"""

import os
import time
from threading import Condition

import pytest

from protofleet.errors import BlobError, LinkBusy
from protofleet.mqtt.blobs.descriptor import BlobLimits
from protofleet.mqtt.blobs.sender import BlobSender, OutgoingBlob
from protofleet.mqtt.blobs.store import BlobStore
from protofleet.mqtt.link.link import Arrival, Ticket
from tests.linking import connect


class FakeLink:
    """Takes what it is handed, or nothing."""

    def __init__(self) -> None:
        self.publications: list[tuple[str, Ticket]] = []
        self.busy = False

    def publish(self, topic, payload, *, qos=1, tell=False):
        if self.busy:
            raise LinkBusy("full")
        ticket = Ticket(Condition())
        self.publications.append((topic, ticket))
        return ticket


def test_sending_keeps_a_window_and_sends_nothing_twice():
    link = FakeLink()
    sending = BlobSender(OutgoingBlob(bytes(10_000), 1000), lambda i: f"c/{i}", window=4)
    sending.want([(0, 9)])
    sending.want([(2, 5)])  # asked for again while it is under way
    for count in range(4, 11):
        assert not sending.pump(link)
        assert len(link.publications) == count
        link.publications[count - 4][1].settle(None)
    for _, ticket in link.publications[-3:]:
        ticket.settle(None)
    assert sending.pump(link)
    assert [topic for topic, _ in link.publications] == [f"c/{i}" for i in range(10)]
    sending.want([(7, 7)])
    link.busy = True
    assert not sending.pump(link)
    link.busy = False
    sending.pump(link)
    assert link.publications[-1][0] == "c/7"


def test_a_chunk_beyond_the_payload_is_an_error():
    blob = OutgoingBlob(bytes(1001), 1000)
    assert (len(blob.chunk(0)), len(blob.chunk(1))) == (1000, 1)
    for index in (-1, 2):
        with pytest.raises(BlobError, match="of 2 does not exist"):
            blob.chunk(index)


def test_20_mb_pass_a_packet_limit_and_a_cut_costs_a_window(start_broker, links, proxied, tmp_path):
    """The sender's connection is cut in the middle; what is sent again is at most what was under
    way.
    """
    limits = BlobLimits()
    broker = start_broker(packet=limits.packet)
    proxy, address = proxied(broker)
    sender, receiver = links(address, "sender"), links(broker.address, "receiver")
    receiver.subscribe([("ub/#", 1)])
    connect(receiver)
    connect(sender)
    whole = sender.publish("ub/whole", bytes(limits.packet + 1))
    assert whole.wait(20)
    assert whole.refused  # the limit is real
    payload = os.urandom(20 * 2**20)
    blob = OutgoingBlob(payload, limits.chunk)
    incoming = BlobStore(
        tmp_path / "store", largest=2**26, total=2**27, expiry=60, clock=time.monotonic
    ).open("a", blob.descriptor)
    sending = BlobSender(blob, lambda i: f"ub/{i}", limits.window)
    sending.want(incoming.missing())
    arrived = 0
    cut = False
    while not incoming.complete:
        sending.pump(sender)
        sender.poll(0.01)
        for event in receiver.poll(0):
            if isinstance(event, Arrival):
                arrived += 1
                incoming.add(int(event.topic.partition("/")[2]), event.payload)
                receiver.ack(event)
        if not cut and arrived > 80:
            cut = True
            proxy.cut()
    assert incoming.payload() == payload
    assert cut
    assert arrived - blob.descriptor.chunks <= limits.window
    assert (
        proxy.carried["up"]
        <= len(payload) + (limits.window + 1) * limits.packet + 200 * blob.descriptor.chunks
    )
