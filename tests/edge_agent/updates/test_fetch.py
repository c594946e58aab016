"""A bundle in chunks: which one is fetched, when it is begun anew, and what is never asked for
again.
"""

from threading import Condition

import pytest

from edge_agent.inference.bundle import open_bundle
from edge_agent.updates.fetch import Fetch, Fetched
from protofleet import wire
from protofleet.errors import TrustError, WireError
from protofleet.mqtt.blobs.receiver import device_receiver
from protofleet.mqtt.blobs.sender import OutgoingBlob
from protofleet.mqtt.link.events import Ticket
from protofleet.mqtt.topics import TopicParts, Topics
from tests.coordinator.made import ANTS, packed_bundle

TOPICS = Topics("f")
CHANNEL = TopicParts(None, "bundle", ("stable",))
CHUNK = 300


class Publisher:
    """Counts what is asked for."""

    def __init__(self):
        self.requests = []

    def publish(self, topic, payload, *, qos=1, tell=False):
        self.requests.append(wire.decode(payload).body)
        return Ticket(Condition())


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """A bundle's bytes and its name."""
    about = {
        "input": {"kind": "vector", "shape": [3]},
        "embedding": 3,
        "classes": ANTS.about.classes,
        "reading": {"by": "prototypes"},
        "lineages": [ANTS.about.lineage],
        **dict.fromkeys(("method", "backbone", "fleet", "run"), "x"),
        "round": 1,
        "precision": "fp32",
        "tolerance": 0.001,
    }
    path = packed_bundle(tmp_path_factory.mktemp("bundle") / "b.pfb", ANTS, **about)
    return path.read_bytes(), open_bundle(path).digest


@pytest.fixture
def publisher():
    return Publisher()


@pytest.fixture
def fetch(tmp_path, publisher):
    fetch = Fetch(device_receiver(TOPICS, "a", tmp_path, publisher, lambda: 0.0, 1 << 26))
    fetch.receiver = fetch._receiver
    return fetch


def announcement(blob, name, of="bundle"):
    body = {**blob.descriptor.body(), "of": of, "bundle": name}
    return wire.encode(wire.Envelope(t="slip", fleet="f", run="r", epoch=1, round=0), body)


def feed(fetch, blob):
    """Its chunks, and the file as the receiver hands it over."""
    for index in range(blob.descriptor.chunks):
        parts = TopicParts("a", "own_chunk", (blob.descriptor.digest, str(index)))
        whole = fetch.receiver.chunk(parts, blob.chunk(index))
    return whole.file


@pytest.mark.parametrize("wanted_first", [True, False])
def test_it_is_fetched_once_it_is_both_wanted_and_announced(fetch, publisher, packed, wanted_first):
    data, name = packed
    blob = OutgoingBlob(data, CHUNK)
    steps = [lambda: fetch.want(name), lambda: fetch.announced(CHANNEL, announcement(blob, name))]
    first, second = steps if wanted_first else reversed(steps)
    assert first() is None
    assert not fetch.under_way
    assert second() is None
    assert fetch.under_way
    fetch.receiver.ask_due()
    assert publisher.requests[-1]["missing"] == [[0, blob.descriptor.chunks - 1]]
    file = feed(fetch, blob)
    assert fetch.whole(file) == Fetched(name, file)
    assert file.read_bytes() == data
    assert not fetch.under_way


def test_an_announcement_that_comes_again_does_not_begin_anew(fetch, packed):
    data, name = packed
    blob = OutgoingBlob(data, CHUNK)
    fetch.want(name)
    fetch.announced(CHANNEL, announcement(blob, name))
    parts = TopicParts("a", "own_chunk", (blob.descriptor.digest, "0"))
    fetch.receiver.chunk(parts, blob.chunk(0))
    fetch.announced(CHANNEL, announcement(blob, name))
    fetch.want(name)
    assert fetch.whole(feed(fetch, blob)).file.read_bytes() == data


def test_another_wish_or_a_channel_without_a_bundle_ends_it(fetch, packed, tmp_path):
    data, name = packed
    blob = OutgoingBlob(data, CHUNK)
    for end in (lambda: fetch.want(""), lambda: fetch.announced(CHANNEL, b"")):
        fetch.want(name)
        fetch.announced(CHANNEL, announcement(blob, name))
        assert fetch.under_way
        assert end() is None
        assert not fetch.under_way
        assert fetch.receiver.due is None
        (tmp_path / "late").write_bytes(data)
        assert fetch.whole(tmp_path / "late") is None
        assert not (tmp_path / "late").exists()


def test_one_of_another_name_is_not_fetched(fetch, packed):
    data, name = packed
    fetch.want("f" * 64)
    assert fetch.announced(CHANNEL, announcement(OutgoingBlob(data, CHUNK), name)) is None
    assert not fetch.under_way


def test_what_was_of_no_use_is_never_fetched_again(fetch, packed):
    bad, name = OutgoingBlob(b"z" * 3000, CHUNK), "a" * 64
    fetch.want(name)
    fetch.announced(CHANNEL, announcement(bad, name))
    fetch.whole(feed(fetch, bad))
    fetch.refuse()
    fetch.announced(CHANNEL, announcement(bad, name))
    assert fetch.want(name) is None
    assert not fetch.under_way
    good = OutgoingBlob(packed[0], CHUNK)
    fetch.announced(CHANNEL, announcement(good, name))  # put right: other bytes under the name
    assert fetch.under_way


def test_a_channel_that_says_something_else_is_an_error(fetch, packed):
    blob = OutgoingBlob(packed[0], CHUNK)
    state = wire.encode(wire.Envelope(t="global", fleet="f", run="r", epoch=1, round=0), {})
    for payload in (announcement(blob, "n", of="upload"), state, b"junk"):
        with pytest.raises(WireError):
            fetch.announced(CHANNEL, payload)


def test_a_bundle_that_is_not_listed_is_not_fetched_until_it_is(fetch, publisher, packed):
    data, name = packed
    blob, listed = OutgoingBlob(data, CHUNK), set()

    def check(digest, size):
        if (digest, size) not in listed:
            raise TrustError("the fleet's list does not have it")

    fetch._listed = check
    fetch.announced(CHANNEL, announcement(blob, name))
    with pytest.raises(TrustError):
        fetch.want(name)
    with pytest.raises(TrustError):
        fetch.again()
    fetch.receiver.ask_due()
    assert (publisher.requests, fetch.under_way) == ([], False)
    listed.add((blob.descriptor.digest, len(data)))
    fetch.again()
    assert fetch.under_way
    assert fetch.again() is None  # on its way already
