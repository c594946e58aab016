"""A site's link upward: large messages in pieces, in both directions."""

import io
import time
from hashlib import sha256

import numpy as np
import pytest

from coordinator.relay.uplink import Uplink
from protofleet import wire
from protofleet.mqtt.blobs.descriptor import BlobDescriptor, descriptor_message
from protofleet.mqtt.link.events import Arrival
from protofleet.util.logs import Log
from protofleet.values.prototypes import Tensors
from protofleet.wire import Envelope
from tests.coordinator.made import TOPICS
from tests.siting import HandLink


@pytest.fixture
def made(tmp_path):
    uplink = Uplink(HandLink(), TOPICS, "north", tmp_path, Log(io.StringIO()), time.monotonic)
    uplink.packet = 2048
    return uplink


def message(size, t="enrol", **more):
    head = Envelope(t, "orchard", "r1", 3, agent="north", **more)
    return wire.encode(head, {"some": Tensors({"rows": np.arange(size) % 251})})


def arrived(topic, payload):
    return Arrival(topic, payload, 1, False, None)


def test_a_small_message_goes_as_it_is(made):
    made.offer(message(10))
    assert made.link.said == [(TOPICS.upload("north", 0), message(10))]
    assert made.digest == ""


def test_a_large_one_goes_as_it_is_asked_for(made):
    large = message(5000)
    made.offer(large)
    ((topic, slip),) = made.link.taken()
    body = wire.decode(slip).body
    assert (topic, body["digest"]) == (TOPICS.upload("north", 0), sha256(large).hexdigest())
    made.missing({"digest": "another", "missing": [[0, 1]]})
    made.push()
    assert made.link.taken() == []
    made.missing({"digest": made.digest, "missing": [[1, 2]]})
    made.push()
    made.push()
    said = made.link.taken()
    chunks = [wire_topic.rsplit("/", 1)[1] for wire_topic, _ in said if "/ub/" in wire_topic]
    assert chunks == ["1", "2"]
    assert said[-1] == (topic, slip)  # what else is missing?
    made.settled()
    assert made.digest == ""


def test_a_large_total_comes_as_a_file_beside_classes_that_are_large(made):
    for place, base in ((TOPICS.proto("stable"), None), (TOPICS.proto("total"), "ab" * 32)):
        large = message(5000, "global", base=base)
        descriptor = BlobDescriptor(sha256(large).hexdigest(), len(large), 1024)
        slip = descriptor_message(wire.unseal(large)[0], descriptor)
        assert list(made.opened([arrived(place, slip)])) == []
    for place, base in ((TOPICS.proto("stable"), None), (TOPICS.proto("total"), "ab" * 32)):
        large = message(5000, "global", base=base)
        digest, came = sha256(large).hexdigest(), []
        for index in range(0, len(large), 1024):
            topic = TOPICS.own_chunk("north", digest, index // 1024)
            came += made.opened([arrived(topic, large[index : index + 1024])])
        ((parts, payload, file),) = came
        assert parts == TOPICS.parse(place)
        assert (payload or file.read_bytes()) == large
        assert (file is not None) == (base is not None)


def test_what_is_of_no_topic_or_no_message_is_left(made):
    strange = [arrived("another/topic", b"x"), arrived(TOPICS.proto("stable"), b"x")]
    assert list(made.opened(strange)) == []
    assert [kind for topic, kind in made.filters if kind != 1] == []
